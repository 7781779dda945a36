"""`nu-ensembles export`: a model as one file that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from nu_ensembles.cli.options import FLAG, OUTPUT, Json
from nu_ensembles.cli.output import show

ENDINGS = {"onnx": ".onnx", "stablehlo": ".stablehlo"}


def export(
    model: Path,
    *,
    format: Literal["onnx", "stablehlo"] = "onnx",
    members: Annotated[bool, FLAG] = False,
    uncertainty: Annotated[bool, FLAG] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
) -> None:
    """Write a model as one file that runs without this package.

    Scaling, the preprocessing of tables, all members and the calibration are inside. The file is run on sample rows
    before it appears, and refused if a probability differs by more than 1e-5 from the model's.

    ```
    nu-ensembles export model
    nu-ensembles export model --format stablehlo --out model.stablehlo
    nu-ensembles export model --members --uncertainty --json
    ```

    Args:
      model: Folder that fit has written.
      format: onnx, for onnxruntime and others (needs the extra onnx), or stablehlo, which JAX alone runs.
      members: Give each member's probabilities, too.
      uncertainty: Give how much the members disagree about a row, too, in nats.
      out: New file; MODEL with the ending of the format by default.
      json: Print one JSON object.
    """
    from nu_ensembles.ensemble import Ensemble

    wanted = {"probabilities": True, "members": members, "uncertainty": uncertainty}
    path = out or model.with_name(model.resolve().name + ENDINGS[format])
    outputs = [name for name, asked in wanted.items() if asked]
    exported = Ensemble.load(model).export(path, format, outputs=outputs)
    result = {
        "command": "export",
        "out": exported.path,
        "bytes": exported.path.stat().st_size,
        "sample_rows": exported.n_rows,
        "largest_difference": exported.difference,
        "description": exported.description,
    }
    inputs = ", ".join(f"{each['name']} {each['dtype']}{each['shape']}" for each in exported.description["inputs"][:5])
    more = len(exported.description["inputs"]) - 5
    text = (
        f"{path}: {result['bytes'] / 1e6:.1f} MB; on {exported.n_rows} sample rows no answer differs by more than "
        f"{exported.difference:.1e}.\nInputs: {inputs}{f' and {more} more' if more > 0 else ''}."
    )
    show(result, text, json)

"""`nu-ensembles export`: a model as one file that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from nu_ensembles.cli.options import FLAG, OUTPUT, Json
from nu_ensembles.cli.output import show

ENDINGS = {"onnx": ".onnx", "stablehlo": ".stablehlo", "hub": "-hub"}


def export(
    model: Path,
    *,
    format: Literal["onnx", "stablehlo", "hub"] = "onnx",
    members: Annotated[bool, FLAG] = False,
    uncertainty: Annotated[bool, FLAG] = False,
    network: str | None = None,
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
    nu-ensembles export model --network train.py:model
    ```

    Args:
      model: Folder that fit has written.
      format: onnx, for onnxruntime and others (needs the extra onnx); stablehlo, which JAX alone runs; or hub, a folder
        for a model hub: the model's own files and a README.md of what its fit found.
      members: Give each member's probabilities, too.
      uncertainty: Give how much the members disagree about a row, too, in nats.
      network: FILE.py:NAME, the network where it is none of the built-in ones: a Model, such as nu.models.from_torch
        gives, or a function that returns one. The file is run for it.
      out: New file; MODEL with the ending of the format by default.
      json: Print one JSON object.
    """
    from nu_ensembles.cli.own_network import own_network
    from nu_ensembles.ensemble import Ensemble

    wanted = {"probabilities": True, "members": members, "uncertainty": uncertainty}
    path = out or model.with_name(model.resolve().name + ENDINGS[format])
    outputs = [name for name, asked in wanted.items() if asked]
    ensemble = Ensemble.load(model, own_network(network))
    if format == "hub":
        ensemble.save(path, model_card=True)
        show({"command": "export", "out": path}, f"{path}: look at its README.md before you upload it.", json)
        return
    exported = ensemble.export(path, format, outputs=outputs)
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

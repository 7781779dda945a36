"""`Ensemble.export`: one file that answers as the ensemble does, tried on sample rows before it appears."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles import storage
from nu_ensembles._version import __version__
from nu_ensembles.contents import classes_to_json
from nu_ensembles.errors import InputError, MissingExtraError, unknown_name
from nu_ensembles.export.answer import check_outputs
from nu_ensembles.export.inputs import Format, input_arrays, inputs_of
from nu_ensembles.export.samples import sample_rows
from nu_ensembles.export.source import Exportable, in_float32

# No probability of an exported file may differ by more from the ensemble's.
TOLERANCE = 1e-5
FORMATS = ("onnx", "stablehlo")


@dataclasses.dataclass(frozen=True)
class Exported:
    """What an export came to.

    Attributes:
      path: the file.
      description: beside a StableHLO file, and within an ONNX file: classes, inputs and outputs, as a dict.
      n_rows: how many rows it was tried on.
      difference: the largest between its answers there and the ensemble's.
    """

    path: Path
    description: dict[str, Any]
    n_rows: int
    difference: float


def export_ensemble(
    ensemble: Any, path: str | Path, format: str, outputs: str | Sequence[str] = ("probabilities",), sample: Any = None
) -> Exported:
    """See `Ensemble.export`."""
    kind = _check_format(format)
    outputs = check_outputs(outputs)
    path = Path(path)
    beside = [path.with_name(path.name + ".json")] if kind == "stablehlo" else []
    for each in (path, *beside):
        storage.refuse_existing(each)
    given = [] if sample is None else [ensemble._rows(sample)]
    plain = _plain(ensemble)
    description = describe(plain, kind, outputs)
    content = _bytes_of(plain, kind, outputs, description)
    difference, n_rows = 0.0, 0
    for rows in (sample_rows(plain), *given):
        difference = max(difference, _difference(plain, rows, content, kind, outputs))
        n_rows += len(rows)
    if not difference <= TOLERANCE:
        raise InputError(
            f"The exported model's answers differ by {difference:.1e} from the ensemble's on {n_rows} sample rows, "
            f"more than {TOLERANCE:g}, so nothing was written; {_advice(plain, kind)}"
        )
    for each in beside:
        storage.write_json(each, description)
    storage.write_bytes(path, content)
    return Exported(path, description, n_rows, difference)


def describe(ensemble: Exportable, kind: Format, outputs: Sequence[str]) -> dict[str, Any]:
    """What someone needs to know who has the file alone; plain values."""
    n_classes, n_members = len(ensemble.classes), ensemble.n_members
    shapes = {"probabilities": [n_classes], "members": [n_members, n_classes], "uncertainty": []}
    return {
        "made_by": f"nu-ensembles {__version__}",
        "classes": classes_to_json(ensemble.classes),
        "inputs": [
            {"name": each.name, "kind": each.kind, "dtype": each.dtype, "shape": ["rows", *each.shape]}
            | ({"levels": list(each.levels)} if each.levels and kind == "stablehlo" else {})
            for each in inputs_of(ensemble, kind)
        ],
        "outputs": [{"name": name, "dtype": "float32", "shape": ["rows", *shapes[name]]} for name in outputs],
        "n_members": n_members,
        "calibrated": ensemble.temperature != 1 or ensemble.calibrator is not None,
    }


def _check_format(name: str) -> Format:
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    if name == "onnx":
        try:
            import onnx  # noqa: F401  # pyright: ignore[reportMissingImports]
            import onnxruntime  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError("export(format='onnx')", "onnx") from error
    return name  # pyright: ignore[reportReturnType]


def _plain(ensemble: Any) -> Any:
    """The ensemble with NumPy's float32 for weights and products."""
    ensemble = in_float32(ensemble)

    def single(leaf: Any) -> Any:
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        array = np.asarray(leaf)
        return array.astype(np.float32) if jnp.issubdtype(array.dtype, jnp.floating) else array

    params, state = jax.tree.map(single, (ensemble.params, ensemble.model_state))
    return dataclasses.replace(ensemble, params=params, model_state=state)


def _bytes_of(ensemble: Any, kind: Format, outputs: Sequence[str], description: dict[str, Any]) -> bytes:
    if kind == "stablehlo":
        from nu_ensembles.export.stablehlo import stablehlo_bytes

        return stablehlo_bytes(ensemble, outputs)
    from nu_ensembles.export.onnx_file import onnx_bytes

    values = ensemble.classes.tolist()
    names = {"classes": json.dumps([each if isinstance(each, str | int | float) else str(each) for each in values])}
    return onnx_bytes(ensemble, outputs, names | {"nu_ensembles": json.dumps(description)})


def _difference(ensemble: Any, rows: Any, content: bytes, kind: Format, outputs: Sequence[str]) -> float:
    """The largest difference on rows, in one batch and, of the first, alone."""
    expected = _expected(ensemble, rows, outputs)  # first: it says what is wrong with rows
    given = input_arrays(ensemble, rows, kind)
    found = _run(ensemble, content, given, kind)
    alone = _run(ensemble, content, {name: value[:1] for name, value in given.items()}, kind)
    together = [np.abs(found[name].astype(np.float64) - expected[name]).max(initial=0.0) for name in outputs]
    single = [np.abs(alone[name].astype(np.float64) - expected[name][:1]).max(initial=0.0) for name in outputs]
    return float(np.max([*together, *single]))


def _run(ensemble: Any, content: bytes, given: dict[str, np.ndarray], kind: Format) -> dict[str, np.ndarray]:
    if kind == "onnx":
        from nu_ensembles.export.onnx_file import run_onnx

        return run_onnx(content, given)
    from nu_ensembles.export.stablehlo import needs_64_bits, run_stablehlo

    return run_stablehlo(content, given, 64 if needs_64_bits(inputs_of(ensemble, kind)) else 32)


def _expected(ensemble: Any, rows: Any, outputs: Sequence[str]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    if "probabilities" in outputs:
        found["probabilities"] = ensemble.predict_proba(rows)
    if "members" in outputs or "uncertainty" in outputs:
        members = ensemble.predict_members(rows).astype(np.float64)
        found["members"] = members.swapaxes(0, 1)
        # Written as the definition is; the program has a form with fewer roundings.
        mean = members.mean(axis=0)
        entropies = [-(probs * np.log(probs)).sum(axis=-1) for probs in (mean, members)]
        found["uncertainty"] = entropies[0] - entropies[1].mean(axis=0)
    return found


def _advice(ensemble: Any, kind: Format) -> str:
    if ensemble.calibrator is not None and ensemble.calibrator.name == "isotonic":
        return (
            "an isotonic calibrator jumps, so that the last digit of a probability can decide; export one that was "
            "calibrated otherwise (calibration='temperature', say)."
        )
    other = "stablehlo" if kind == "onnx" else "onnx"
    return f"try format={other!r}, and report the network as a bug."


def torch_ensemble(ensemble: Any) -> Any:
    """See `Ensemble.to_torch`."""
    try:
        import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("to_torch", "torch") from error
    from nu_ensembles.export.torch_module import torch_module

    return torch_module(_plain(ensemble))

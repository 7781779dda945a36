"""How an ensemble is kept on disk: a folder with nothing executable in it.

`weights.safetensors` holds all members, stacked, `manifest.json` the network, the classes, what happens to the inputs,
how it was trained, and checksums.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles import storage
from nu_ensembles._version import __version__
from nu_ensembles.engine.initial import stacked_shapes
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.models import Model, from_spec, split_variables
from nu_ensembles.models.inspect import variable_shapes
from nu_ensembles.problem import Standardisation
from nu_ensembles.tables import TableEncoding

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

# Version 1 knows nothing of dropout masks, version 2 nothing of tables; what has neither is still written as version 1,
# for older versions to read.
FORMAT = 3
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"


def write_ensemble(ensemble: Ensemble, folder: str | Path) -> None:
    """Writes an ensemble into a new folder, which appears whole or not at all."""
    arrays = {f"params/{name}": value for name, value in storage.flatten_like(ensemble.params).items()}
    arrays |= {f"state/{name}": value for name, value in storage.flatten_like(ensemble.model_state).items()}
    if ensemble.standardisation is not None:
        arrays |= {"input/mean": ensemble.standardisation.mean, "input/scale": ensemble.standardisation.scale}
    if ensemble.mask_keys is not None:
        arrays["mask_keys"] = ensemble.mask_keys
    with storage.new_folder(folder) as inside:
        checksum = storage.save_arrays(inside / WEIGHTS, arrays)
        manifest = {
            "format": _format(ensemble),
            "package": f"nu-ensembles {__version__}",
            "model": ensemble.model.spec.to_dict() if ensemble.model.spec else None,
            "n_members": ensemble.n_members,
            "n_networks": ensemble.n_networks,
            "row_shape": list(ensemble.row_shape),
            "classes": _classes_to_json(ensemble.classes),
            "temperature": ensemble.temperature,
            "standardised": ensemble.standardisation is not None,
            "pixels": ensemble.pixels,
            "columns": None if ensemble.columns is None else list(ensemble.columns),
            "table": None if ensemble.encoding is None else ensemble.encoding.to_json(),
            "training": ensemble.training,
            "history": ensemble.history,
            "weights": {"file": WEIGHTS, "sha256": checksum},
        }
        storage.write_sealed_json(inside / MANIFEST, manifest)


def read_fields(folder: str | Path, model: Model | None) -> dict[str, Any]:
    """The fields of the ensemble in a folder, after checking every byte against its checksum.

    Args:
      model: the network, needed when it is not one of the built-in ones.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no saved ensemble at {folder}: the folder does not exist.")
    manifest = storage.read_sealed_json(folder / MANIFEST, "the manifest of a saved ensemble")
    if manifest["format"] > FORMAT:
        raise InputError(
            f"{folder} was saved by a newer version ({manifest['package']}) than this one ({__version__}); upgrade "
            "nu-ensembles to read it."
        )
    if model is None:
        if manifest["model"] is None:
            raise InputError(f"{folder} holds a network of your own; pass it: Ensemble.load(folder, model=…).")
        model = from_spec(manifest["model"])
    arrays = storage.load_arrays(folder / manifest["weights"]["file"], manifest["weights"]["sha256"])
    row_shape = tuple(manifest["row_shape"])
    dtype = manifest["training"].get("dtype", "float32")
    # Manifests of version 1 have as many networks as members.
    n_networks = manifest.get("n_networks", manifest["n_members"])
    params, model_state = _templates(model, row_shape, n_networks, dtype)
    standardisation = None
    if manifest["standardised"]:
        standardisation = Standardisation(arrays["input/mean"], arrays["input/scale"])
    try:
        return {
            "model": model,
            "params": storage.unflatten_like(_under(arrays, "params/"), params),
            "model_state": storage.unflatten_like(_under(arrays, "state/"), model_state),
            "classes": _classes_from_json(manifest["classes"]),
            "row_shape": row_shape,
            "standardisation": standardisation,
            "pixels": manifest["pixels"],
            "columns": None if manifest.get("columns") is None else tuple(manifest["columns"]),
            "encoding": None if manifest.get("table") is None else TableEncoding.from_json(manifest["table"]),
            "temperature": manifest["temperature"],
            "mask_keys": arrays.get("mask_keys"),
            "training": manifest["training"],
            "history": manifest["history"],
        }
    except DamagedFileError as error:
        raise InputError(f"The weights in {folder} do not fit the network: {error}") from error


def _format(ensemble: Ensemble) -> int:
    """The oldest version of the manifest that says all there is."""
    if ensemble.encoding is not None:
        return 3
    return 1 if ensemble.mask_keys is None else 2


def _templates(model: Model, row_shape: tuple[int, ...], n_members: int, dtype: str) -> tuple[Any, Any]:
    """Shapes and dtypes of the stacked variables, without computing anything."""
    params, state = split_variables(stacked_shapes(variable_shapes(model, row_shape), n_members))
    # The engine casts the parameters to the dtype of the training, whatever the network's own.
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(dtype)), params), state


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    values = classes.tolist()
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise InputError("Only classes that are text, numbers or booleans can be saved; rename them first.")
    return {"dtype": classes.dtype.str, "values": values}


def _classes_from_json(entry: dict[str, Any]) -> np.ndarray:
    return np.array(entry["values"], dtype=object if entry["dtype"] == "|O" else entry["dtype"])

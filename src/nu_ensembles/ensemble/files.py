"""How an ensemble is kept on disk: a folder with nothing executable in it.

`weights.safetensors` holds all members, stacked, `manifest.json` the network, the classes, what happens to the inputs,
how it was trained, and checksums.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles import calibration, storage
from nu_ensembles._version import __version__
from nu_ensembles.companion import Companion
from nu_ensembles.contents import Manifest, array_of, classes_to_json, parsed, refuse_not_finite, unfit
from nu_ensembles.engine.initial import stacked_shapes
from nu_ensembles.ensemble.model_card import FILE, model_card
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.models import Model, from_spec, network_for, split_variables
from nu_ensembles.models.inspect import variable_shapes
from nu_ensembles.models.wrapped import unwrapped, wrapped
from nu_ensembles.problem import Standardisation
from nu_ensembles.tables import TableEncoding

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

# Version 1 knows nothing of dropout masks, version 2 nothing of tables, version 3 nothing of calibrators, version 4
# nothing of companions, version 5 nothing of networks around others, version 6 nothing of ramps; what has none of these
# is still written as version 1, for older versions to read.
FORMAT = 8
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"
COMPANION = "companion/"


def write_ensemble(ensemble: Ensemble, folder: str | Path, with_card: bool = False) -> None:
    """Writes an ensemble into a new folder, which appears whole or not at all."""
    with storage.new_folder(folder) as inside:
        fill_folder(ensemble, inside)
        if with_card:
            storage.write_bytes(inside / FILE, model_card(ensemble).encode())


def fill_folder(ensemble: Ensemble, inside: Path) -> None:
    """Writes the files of an ensemble into an empty folder; refuses to write what could not be read again."""
    arrays = {f"params/{name}": value for name, value in storage.flatten_like(ensemble.params).items()}
    arrays |= {f"state/{name}": value for name, value in storage.flatten_like(ensemble.model_state).items()}
    if ensemble.standardisation is not None:
        arrays |= {"input/mean": ensemble.standardisation.mean, "input/scale": ensemble.standardisation.scale}
    if ensemble.mask_keys is not None:
        arrays["mask_keys"] = ensemble.mask_keys
    if ensemble.companion is not None:
        arrays |= {f"{COMPANION}{name}": value for name, value in ensemble.companion.arrays().items()}
    checksum = storage.save_arrays(inside / WEIGHTS, arrays)
    network, wrapper = unwrapped(ensemble.model)
    manifest = {
        "format": _format(ensemble),
        "package": f"nu-ensembles {__version__}",
        "model": network.spec.to_dict() if network.spec else None,
        **({} if wrapper is None else {"wrapper": wrapper.to_dict()}),
        "n_members": ensemble.n_members,
        "n_networks": ensemble.n_networks,
        "row_shape": list(ensemble.row_shape),
        "classes": classes_to_json(ensemble.classes),
        "temperature": ensemble.temperature,
        "calibrator": None if ensemble.calibrator is None else _plain(ensemble.calibrator.state()),
        "companion": None if ensemble.companion is None else ensemble.companion.numbers(),
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
    """The fields of the ensemble in a folder, after checking every byte against its checksum and every field.

    Args:
      model: the network, needed when it is not one of the built-in ones.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no saved ensemble at {folder}: the folder does not exist.")
    manifest = _manifest(folder)
    weights = folder / manifest.weights.file
    arrays = storage.load_arrays(weights, manifest.weights.sha256)
    where = f"The weights {weights}"
    refuse_not_finite(arrays, where)
    network = _wrapped(manifest, _network(manifest, model, folder, len(arrays)), folder)
    encoding = None
    if manifest.table is not None:
        encoding = TableEncoding.from_json(manifest.table, f"The manifest {folder / MANIFEST}: 'table'")
        if (len(encoding.outputs),) != manifest.row_shape:
            raise DamagedFileError(
                f"The table in {folder / MANIFEST} makes {len(encoding.outputs)} numbers of a row where the network "
                f"takes {list(manifest.row_shape)}: it was altered; restore it from a copy."
            )
    standardisation = None
    if manifest.standardised:
        mean, scale = (
            array_of(arrays, f"input/{name}", manifest.row_shape, "f", where, above)
            for name, above in (("mean", -math.inf), ("scale", 0))
        )
        standardisation = Standardisation(mean, scale)
    # Members are networks of their own, or masks of one.
    mask_keys = None
    if "mask_keys" in arrays:
        mask_keys = array_of(arrays, "mask_keys", (manifest.n_members, 2), "u", where)
    elif manifest.n_networks not in (None, manifest.n_members):
        raise unfit(f"The manifest {folder / MANIFEST}: 'n_networks'", "as many as members", manifest.n_networks)
    n_networks = manifest.n_members if mask_keys is None else 1
    dtype = manifest.training.get("dtype", "float32")
    params, model_state = _templates(network, manifest.row_shape, n_networks, dtype)
    try:
        params = storage.unflatten_like(_under(arrays, "params/"), params)
        model_state = storage.unflatten_like(_under(arrays, "state/"), model_state)
    except DamagedFileError as error:
        raise InputError(f"The weights in {folder} do not fit the network: {error}") from error
    return {
        "model": network,
        "params": params,
        "model_state": model_state,
        "classes": manifest.classes,
        "row_shape": manifest.row_shape,
        "standardisation": standardisation,
        "pixels": manifest.pixels,
        "columns": manifest.columns,
        "encoding": encoding,
        "temperature": manifest.temperature,
        "calibrator": _calibrator(manifest, folder),
        "companion": _companion(manifest, arrays, where),
        "mask_keys": mask_keys,
        "training": dict(manifest.training),
        "history": list(manifest.history),
    }


def _manifest(folder: Path) -> Manifest:
    entry = storage.read_sealed_json(folder / MANIFEST, "the manifest of a saved ensemble")
    # Asked for first: what a newer version says need not make sense to this one.
    if isinstance(entry, dict) and isinstance(entry.get("format"), int) and entry["format"] > FORMAT:
        raise InputError(
            f"{folder} was saved by a newer version ({entry.get('package')}) than this one ({__version__}); upgrade "
            "nu-ensembles to read it."
        )
    return parsed(Manifest, entry, f"The manifest {folder / MANIFEST}")


def _network(manifest: Manifest, model: Model | None, folder: Path, n_arrays: int) -> Model:
    """The network of a model, or the user's own, which must give a logit for each class."""
    if model is not None:
        return network_for(model, len(manifest.classes), manifest.row_shape, {})
    form = manifest.model
    if form is None:
        raise InputError(
            f"{folder} holds a network of your own; pass it: Ensemble.load(folder, model=…); nu-ensembles serve "
            "and export take --network FILE.py:NAME."
        )
    try:
        if form.n_layers > n_arrays:
            raise InputError(f"it has {form.n_layers} layers, and there are {n_arrays} arrays of weights.")
        return from_spec(dataclasses.asdict(form))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"The network in {folder / MANIFEST} cannot be made: {error} It was altered; restore it from a copy."
        ) from error


def _wrapped(manifest: Manifest, network: Model, folder: Path) -> Model:
    """The network with what was around it."""
    form = manifest.wrapper
    if form is None:
        return network
    try:
        return wrapped(network, form.name, **form.options)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"What is around the network in {folder / MANIFEST} cannot be made: {error} It was altered; restore it "
            "from a copy."
        ) from error


def _format(ensemble: Ensemble) -> int:
    """The oldest version of the manifest that says all there is."""
    network, wrapper = unwrapped(ensemble.model)
    options = {} if network.spec is None else dict(network.spec.options)
    if {"groups", "widths"} & options.keys() or (wrapper is not None and wrapper.name == "sngp"):
        return 8
    if options.get("ramps"):
        return 7
    if wrapper is not None:
        return 6
    if ensemble.companion is not None:
        return 5
    if ensemble.calibrator is not None:
        return 4
    if ensemble.encoding is not None:
        return 3
    return 1 if ensemble.mask_keys is None else 2


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in state.items()}


def _calibrator(manifest: Manifest, folder: Path) -> calibration.FittedCalibrator | None:
    if manifest.calibrator is None:
        return None
    where, n_classes = f"The calibrator in {folder / MANIFEST}", len(manifest.classes)
    try:
        calibrator = calibration.restore(manifest.calibrator)
    except InputError as error:
        raise DamagedFileError(f"{where} cannot be used: {error}") from None
    if calibrator.n_classes != n_classes:
        raise unfit(where, f"one of {n_classes} classes", calibrator.n_classes)
    return calibrator


def _companion(manifest: Manifest, arrays: dict[str, np.ndarray], where: str) -> Companion | None:
    form, trees = manifest.companion, _under(arrays, COMPANION)
    if form is None:
        return None
    n_features, n_classes = manifest.row_shape[0], len(manifest.classes)
    try:
        return Companion.restored(form.weight, form.temperature, trees, n_features, n_classes)
    except InputError as error:
        raise DamagedFileError(f"{where} hold a companion that cannot be used: {error}") from None


def _templates(model: Model, row_shape: tuple[int, ...], n_members: int, dtype: str) -> tuple[Any, Any]:
    """Shapes and dtypes of the stacked variables, without computing anything."""
    params, state = split_variables(stacked_shapes(variable_shapes(model, row_shape), n_members))
    # The engine casts the parameters to the dtype of the training, whatever the network's own.
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(dtype)), params), state


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}

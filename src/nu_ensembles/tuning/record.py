"""A finished search in a run folder: a killed fit goes on from it instead of searching again.

`search.json` names what was chosen and what the search belongs to; `search.safetensors` holds the losses and
probabilities to the last bit, so everything derived from them (verdict, temperature, table) comes out the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import storage
from nu_ensembles.engine.assembly import Settings
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Method
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.folds import Fold
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.search import SearchSettings, search

INDEX, ARRAYS = "search.json", "search.safetensors"
_OUT_OF_FOLD = ("betas", "steps", "losses", "probabilities", "rows", "codes", "weight", "fold_of")


def recorded_search(
    folder: Path | None,
    problem: Problem,
    model: Model,
    method_of: Callable[[float], Method],
    folds: Sequence[Fold],
    settings: Settings,
    max_steps: int,
    seed: int,
    *,
    how: SearchSettings,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    verbose: int = 0,
) -> SearchResult:
    """The search recorded in a run folder, or else a new one, which is then recorded there.

    Args:
      folder: of the run; None searches without a record. The others are those of `search`.

    Raises:
      InputError: the folder holds the search of other data or settings.
    """
    fingerprint = ""
    if folder is not None:
        configuration = (model.spec or model, method_of(0.0), settings, how)
        fingerprint = search_fingerprint((*configuration, max_steps, seed), problem, folds, validation)
        if (folder / INDEX).exists():
            return _read(folder, fingerprint, folds)
    result = search(
        problem,
        model,
        method_of,
        folds,
        settings,
        max_steps,
        seed,
        how=how,
        validation=validation,
        verbose=verbose,
    )
    if folder is not None:
        _write(folder, fingerprint, result)
    return result


def _write(folder: Path, fingerprint: str, result: SearchResult) -> None:
    arrays = {name: getattr(result.out_of_fold, name) for name in _OUT_OF_FOLD}
    checksum = storage.save_arrays(folder / ARRAYS, arrays)
    # The index comes last: a kill before it leaves no search, a kill after it a whole one.
    storage.write_sealed_json(
        folder / INDEX,
        {
            "fingerprint": fingerprint,
            "beta": result.beta,
            "n_steps": result.n_steps,
            "chosen": result.chosen,
            "best": result.best,
            "tolerance": result.tolerance,
            "sha256": checksum,
        },
    )


def _read(folder: Path, fingerprint: str, folds: Sequence[Fold]) -> SearchResult:
    entry = storage.read_sealed_json(folder / INDEX, "The record of a search")
    if entry["fingerprint"] != fingerprint:
        raise InputError(
            f"The search in {folder} belongs to other data or settings; use the same ones to resume it, or start again "
            "in another folder."
        )
    arrays = storage.load_arrays(folder / ARRAYS, entry["sha256"])
    chosen, best = tuple(entry["chosen"]), tuple(entry["best"])
    return SearchResult(OutOfFold(**arrays, folds=folds), chosen, best, entry["tolerance"])


def search_fingerprint(
    configuration: tuple[Any, ...],
    problem: Problem,
    folds: Sequence[Fold],
    validation: tuple[np.ndarray, np.ndarray] | None,
) -> str:
    """A hash of everything that decides the outcome of a search."""
    digest = hashlib.sha256(lasting_repr(configuration).encode())
    data = (problem.x, problem.codes, problem.weight, problem.x_unlabeled, *(validation or ()))
    for part in (*data, *(rows for fold in folds for rows in fold)):
        array = np.ascontiguousarray(np.zeros(0) if part is None else part)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

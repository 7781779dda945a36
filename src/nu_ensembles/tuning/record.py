"""A finished search in a run folder: a killed fit goes on from it instead of searching again.

`search.json` names what was chosen and what the search belongs to; `search.safetensors` holds the losses and
probabilities to the last bit, so everything derived from them (verdict, temperature, table) comes out the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles import storage
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.errors import InputError
from nu_ensembles.problem import plain_seed
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.folds import Fold
from nu_ensembles.tuning.scores import OutOfFold

if TYPE_CHECKING:
    from nu_ensembles.tuning.search import SearchSettings

INDEX, ARRAYS = "search.json", "search.safetensors"
_OUT_OF_FOLD = ("betas", "steps", "losses", "probabilities", "rows", "y", "weight", "fold_of")


def kept_search(
    run: RunFolder | None,
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings,
    search: Callable[[], SearchResult],
) -> SearchResult:
    """The search that the run folder holds, or else a new one, which is then kept there.

    Raises:
      InputError: the folder holds the search of other data or settings.
    """
    if run is None:
        return search()
    fingerprint = search_fingerprint(job, folds, how)
    if (run.folder / INDEX).exists():
        return _read(run.folder, fingerprint, folds)
    result = search()
    _write(run.folder, fingerprint, result)
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
            "more_rows": result.more_rows,
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
    return SearchResult(OutOfFold(**arrays, folds=folds), chosen, best, entry["tolerance"], entry["more_rows"])


def search_fingerprint(job: TrainingJob, folds: Sequence[Fold], how: SearchSettings) -> str:
    """A hash of everything that decides the outcome of a search."""
    configuration = job.network.spec or job.network, job.method, job.settings, how, job.n_steps, plain_seed(job.key)
    digest = hashlib.sha256(lasting_repr(configuration).encode())
    shown = () if job.validation is None else (job.validation.x, job.validation.y)
    for part in (*job.rows, *shown, *(rows for fold in folds for rows in fold)):
        array = np.ascontiguousarray(np.zeros(0) if part is None else part)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

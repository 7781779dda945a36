"""A finished search in a run folder: a killed fit goes on from it instead of searching again.

`search.json` names what was chosen and what the search belongs to; `search.safetensors` holds the losses and
probabilities to the last bit, so everything derived from them (verdict, temperature, table) comes out the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import array_of, checksum, listing, number, parsed, stored, unfit, whole
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.lifecycle.state import other_work
from nu_ensembles.problem import plain_seed
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.folds import Fold, HeldOut, held_out_of
from nu_ensembles.tuning.scores import OutOfFold

if TYPE_CHECKING:
    from nu_ensembles.tuning.search import SearchSettings

INDEX, ARRAYS = "search.json", "search.safetensors"
_FOUND = ("betas", "steps", "losses", "probabilities")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchIndex:
    """What `search.json` holds, as far as it is read."""

    fingerprint: str = stored(checksum)
    chosen: tuple[int, ...] = stored(listing(whole(), 2, 2))
    best: tuple[int, ...] = stored(listing(whole(), 2, 2))
    tolerance: float = stored(number(above=-1))
    more_rows: float = stored(number(above=0))
    sha256: str = stored(checksum)


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
        return _read(run.folder, fingerprint, held_out_of(job, folds), len(job.problem.classes))
    result = search()
    _write(run.folder, fingerprint, result)
    return result


def _write(folder: Path, fingerprint: str, result: SearchResult) -> None:
    arrays = {name: getattr(result.out_of_fold, name) for name in _FOUND}
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


def _read(folder: Path, fingerprint: str, held_out: HeldOut, n_classes: int) -> SearchResult:
    where = f"The record of a search {folder / INDEX}"
    entry = parsed(SearchIndex, storage.read_sealed_json(folder / INDEX, "The record of a search"), where)
    if entry.fingerprint != fingerprint:
        raise other_work(f"The search in {folder}")
    arrays, file = storage.load_arrays(folder / ARRAYS, entry.sha256), f"The file {folder / ARRAYS}"
    n_betas, n_stops = (arrays.get(name, np.zeros(0)).size for name in ("betas", "steps"))
    betas = array_of(arrays, "betas", (n_betas,), "f", file, above=-1)
    steps = array_of(arrays, "steps", (n_stops,), "i", file)
    found = OutOfFold.empty(betas, steps, held_out, n_classes)
    for name in ("losses", "probabilities"):
        array = arrays.get(name)
        if array is None or array.shape != getattr(found, name).shape or array.dtype != np.float64:
            raise unfit(file, f"{name} of {n_betas} candidates at {n_stops} stops", None)
        getattr(found, name)[...] = array
    (chosen, stop), (best, best_stop) = entry.chosen, entry.best
    for candidate, at in (entry.chosen, entry.best):
        if candidate >= n_betas or at >= n_stops or not np.isfinite(found.losses[candidate, at]).all():
            raise unfit(where, "one that chose what was measured", candidate)
    return SearchResult(found, (chosen, stop), (best, best_stop), entry.tolerance, entry.more_rows)


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

"""`corrupt_all`: one corrupted set after the other, type by severity, made by several processes.

Only a few sets are in memory at a time: 10,000 CIFAR images in all 75 ways are 2.3 GB.
"""

from __future__ import annotations

import collections
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import checked, shown
from nu_ensembles.corruptions.levels import Images
from nu_ensembles.corruptions.severities import COMMON_NAMES
from nu_ensembles.corruptions.suite import check_choice, check_images, corrupt
from nu_ensembles.errors import InputError
from nu_ensembles.progress import counting_bar

# What one process gets at a time, in pixels: about half a second of work.
_PIXELS_A_TASK = 1000 * 32 * 32


class CorruptedSet(NamedTuple):
    """All images under one corruption.

    Attributes:
      name: the corruption.
      severity: 1 … 5.
      images: uint8 `[N, H, W, C]`, in the order of the originals.
    """

    name: str
    severity: int
    images: Images


@checked
def corrupt_all(
    images: ArrayLike,
    names: Sequence[str] = COMMON_NAMES,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    *,
    n_processes: int = 1,
    verbose: int = 1,
) -> Iterator[CorruptedSet]:
    """Corrupts all images in all ways, one set at a time.

        for name, severity, corrupted in corrupt_all(test_images, n_processes=2):
            scores[name, severity] = evaluate(ensemble.predict_members(corrupted / 255), labels)

    Each set is what `corrupt` returns for the same seed, whatever the number of processes. A script that asks for
    several processes must guard its main part by `if __name__ == "__main__":`, because each process imports it anew.

    Args:
      images: uint8 `[N, H, W, C]`.
      names: corruptions, in this order; the 15 of the benchmark by default.
      severities: severities of each, in this order.
      seed: as for `corrupt`.
      n_processes: processes that work at the same time; with 1 all is done in this one.
      verbose: 0 for no progress bar.
    """
    images = check_images(images)
    for name in names:
        for severity in severities:
            check_choice(name, severity)
    if not isinstance(n_processes, int | np.integer) or n_processes < 1:
        raise InputError(f"n_processes must be a whole number from 1 on, not {shown(n_processes)}.")
    cells = [(name, severity) for name in names for severity in severities]
    return _stream(images, cells, seed, int(n_processes), verbose)


def _stream(
    images: Images, cells: list[tuple[str, int]], seed: int, n_processes: int, verbose: int
) -> Iterator[CorruptedSet]:
    size = max(_PIXELS_A_TASK // (images.shape[1] * images.shape[2]), 1)
    starts = range(0, len(images), size)
    tasks = [(name, severity, start) for name, severity in cells for start in starts]
    parts = _parts(images, tasks, size, seed, n_processes)
    with counting_bar("corrupting", len(images) * len(cells), verbose=verbose) as advance:
        for name, severity in cells:
            corrupted = np.empty_like(images)
            for start in starts:
                part = next(parts)
                corrupted[start : start + size] = part
                advance(len(part))
            yield CorruptedSet(name, severity, corrupted)


def _parts(
    images: Images, tasks: list[tuple[str, int, int]], size: int, seed: int, n_processes: int
) -> Iterator[Images]:
    """The corrupted rows of each task, in order."""
    if n_processes == 1:
        for name, severity, start in tasks:
            yield corrupt(images[start : start + size], name, severity, seed, first=start)
        return
    # Not fork: a process in which JAX has run has threads, and copying those can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_processes, mp_context=context)
    pending: collections.deque[Future[Images]] = collections.deque()
    waiting = iter(tasks)
    try:
        # A short queue keeps all processes busy while the caller looks at a set, and memory small.
        while True:
            while len(pending) < 3 * n_processes and (task := next(waiting, None)) is not None:
                name, severity, start = task
                pending.append(pool.submit(corrupt, images[start : start + size], name, severity, seed, first=start))
            if not pending:
                return
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise InputError(
            'A process that corrupts images ended at its start: guard the script by if __name__ == "__main__": '
            "or use n_processes=1."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

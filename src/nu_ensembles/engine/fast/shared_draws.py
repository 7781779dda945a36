"""What several runs draw alike, drawn once: networks, batches and keys of candidates and trials that share their seeds.

Trials of a search have the same members, so that they differ in their parameters alone. Drawing for each of them again
what the first one drew took a tenth of a search's time (`benchmarks/tune_side_by_side.py`); the bits are the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
from jax import Array

from nu_ensembles.engine.program import Lanes, Program, TrainingData

# What is kept at most: some sixty blocks of fifteen perceptrons. What comes after that is drawn by everybody.
MOST_BYTES = 1 << 26


class SharedDraws:
    """Keeps what was drawn under a name that holds all that decides it; may be asked from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._kept: dict[Hashable, Future[Any]] = {}
        self._n_bytes = 0
        self._lock = threading.Lock()

    def of(self, name: Hashable, draw: Callable[[], Any]) -> Any:
        """What `draw()` gives, called by the first who asks; who asks meanwhile waits."""
        with self._lock:
            kept = self._kept.get(name)
            is_first = kept is None and self._n_bytes < self.most_bytes
            if is_first:
                kept = self._kept[name] = Future()
        if kept is None:
            return draw()
        if is_first:
            try:
                kept.set_result(draw())
            except BaseException as error:
                with self._lock:
                    del self._kept[name]
                kept.set_exception(error)
                raise
            with self._lock:
                self._n_bytes += sum(leaf.nbytes for leaf in jax.tree.leaves(kept.result()))
        return kept.result()


def drawn_from(program: Program, lanes: Lanes, data: TrainingData) -> Hashable:
    """All that decides what lanes draw: neither rates nor a method's numbers do."""
    keys: Array = jax.random.key_data(lanes.key)
    u = None if data.x_unlabeled is None else data.x_unlabeled.shape
    n_unlabeled = None if data.n_unlabeled is None else int(data.n_unlabeled)
    of_lanes = (np.asarray(each).tobytes() for each in (keys, lanes.n_rows))
    return program, data.x.shape, str(data.x.dtype), u, n_unlabeled, lanes.rows.shape, *of_lanes

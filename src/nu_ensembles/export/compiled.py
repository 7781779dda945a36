"""An ensemble made ready to answer at once: one compiled program from scaled rows to calibrated probabilities.

`Ensemble.predict_proba` goes lane by lane where memory asks for it and calibrates in float64, which costs a single row
.5 to 10 ms. Here everything after the scaling of the inputs is one program in float32, compiled once for each size.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from nu_ensembles.checks import check_whole
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.export.answer import answers, check_outputs
from nu_ensembles.export.source import Exportable
from nu_ensembles.models import uses_convolution

# Rows that go through the program at once; of images fewer, as in `engine/predict.py`.
ROWS_AT_ONCE = 1024
VALUES_AT_ONCE = 3 << 17
# Networks of up to so many bytes are constants of the programs: handing them over takes 10 µs of the 65 of a small row.
MOST_CONSTANT_BYTES = 1 << 20


class CompiledEnsemble:
    """Probabilities of an ensemble with as little around them as can be; any number of threads may ask.

    The probabilities are those of `Ensemble.predict_proba` to 1e-6, and so are those of the same row in batches of
    different sizes: each size has a program of its own, which may add in another order.

    Args:
      ensemble: what answers.
      outputs: what `answer` gives back, of "probabilities", "members" and "uncertainty".
    """

    def __init__(self, ensemble: Exportable, outputs: str | Sequence[str] = ("probabilities",)) -> None:
        self.ensemble = ensemble
        self.outputs = check_outputs(outputs)
        self.most_rows = _most_rows(ensemble)
        self._programs: set[int] = set()
        self._compiling = threading.Lock()
        self._pixels = ensemble.pixels and ensemble.standardisation is None
        self._program = _program(ensemble, self.outputs)

    def predict_proba(self, x: Any) -> np.ndarray:
        """Calibrated class probabilities, float32 `[N, C]`.

        Args:
          x: as `Ensemble.predict_proba` takes it; so in all that follows.
        """
        return self.answer(x)["probabilities"]

    def predict(self, x: Any) -> np.ndarray:
        """The most probable class of each row, `[N]`.

        Args:
          x: `[N, …]`.
        """
        return self.ensemble.classes[self.predict_proba(x).argmax(axis=1)]

    def answer(self, x: Any) -> dict[str, np.ndarray]:
        """All outputs by their names; "members" is `[N, K, C]`.

        Args:
          x: `[N, …]`.
        """
        return self.answer_rows(self.rows(x))

    def answer_rows(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """All outputs, of what `rows` gave back.

        Args:
          rows: `[N, …]`.
        """
        if len(rows) <= self.most_rows:
            return self._answer(rows)
        parts = [self._answer(rows[start : start + self.most_rows]) for start in range(0, len(rows), self.most_rows)]
        return {name: np.concatenate([part[name] for part in parts]) for name in self.outputs}

    def rows(self, x: Any) -> np.ndarray:
        """Rows as the networks take them, checked; `answer` does this by itself.

        Args:
          x: `[N, …]`.
        """
        ensemble = self.ensemble
        if type(x) is np.ndarray and len(x) and x.shape[1:] == ensemble.row_shape and ensemble.encoding is None:
            found = self._plain_rows(x)
            if found is not None:
                return found
        found = ensemble._rows(x)
        if len(found) == 0:
            return np.zeros((0, *ensemble.row_shape), np.uint8 if self._pixels else np.float32)
        return ensemble._network_rows(found)

    def _plain_rows(self, x: np.ndarray) -> np.ndarray | None:
        """Rows that need no more than scaling; None for all others, in whose way a sentence may stand."""
        scaling = self.ensemble.standardisation
        if scaling is None:
            good = x.dtype == np.uint8 if self._pixels else x.dtype == np.float32 and bool(np.isfinite(x).all())
            return x if good else None
        if x.dtype not in (np.float32, np.float64):
            return None
        with np.errstate(all="ignore"):
            scaled = scaling(x)
        # What is not finite before is not afterwards.
        return scaled if np.isfinite(scaled).all() else None

    def warm(self, rows: int) -> CompiledEnsemble:
        """Compiles the programs for batches of up to so many rows, so that nobody waits for that later.

        Args:
          rows: the most that will come at once.
        """
        dtype = np.uint8 if self._pixels else np.float32
        size = 1
        for size in _sizes(min(check_whole(rows, "rows"), self.most_rows), self.most_rows):
            self._answer(np.zeros((size, *self.ensemble.row_shape), dtype))
        return self

    def _answer(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        n_rows = len(rows)
        size = min(padded_size(n_rows), self.most_rows)
        if n_rows != size:
            padded = np.zeros((size, *rows.shape[1:]), rows.dtype)
            padded[:n_rows] = rows
            rows = padded
        if size not in self._programs:
            with self._compiling:  # or threads that come at once would all compile
                jax.block_until_ready(self._program(rows))
                self._programs.add(size)
        found = self._program(rows)
        return {name: np.asarray(value)[:n_rows] for name, value in found.items()}


def _program(ensemble: Exportable, outputs: tuple[str, ...]) -> Callable[[np.ndarray], dict[str, Array]]:
    """From network rows to the outputs, compiled for each number of rows."""
    variables: tuple[Any, Any] = ensemble.params, ensemble.model_state
    n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(variables))
    if n_bytes <= MOST_CONSTANT_BYTES:
        return jax.jit(lambda x: answers(ensemble, variables[0], variables[1], x, outputs))
    program = jax.jit(lambda given, x: answers(ensemble, given[0], given[1], x, outputs))
    return functools.partial(program, jax.device_put(variables))


def _most_rows(ensemble: Exportable) -> int:
    """A power of two; all members are in memory at once, and images are where their layers still fit the caches."""
    if not uses_convolution(ensemble.model, (1, *ensemble.row_shape)):
        return ROWS_AT_ONCE
    values = ensemble.n_members * int(np.prod(ensemble.row_shape))
    return 1 << max(0, min(ROWS_AT_ONCE, VALUES_AT_ONCE // values).bit_length() - 1)


def _sizes(most: int, largest: int) -> list[int]:
    """The sizes that batches of up to `most` rows are padded to."""
    return sorted({min(padded_size(size), largest) for size in range(1, most + 1)})

"""Other libraries' networks draw their weights from generators of the whole process: how to seed those for a while.

They are drawn while a compiled program of ours waits, so what goes wrong in them is noted on its way through JAX.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np

_DRAWING = threading.Lock()
_FAILED: list[Exception] = []


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The generators of Python and NumPy start from a seed, and go on afterwards as if nothing had been."""
    with _DRAWING:
        states = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


@contextlib.contextmanager
def noted_failure() -> Iterator[None]:
    """Around what JAX calls back, for `own_failure`."""
    try:
        yield
    except Exception as error:
        _FAILED.append(error)
        raise


@contextlib.contextmanager
def own_failure() -> Iterator[None]:
    """Raises what a network's factory raised inside a compiled program, instead of the error that JAX makes of it."""
    _FAILED.clear()
    try:
        yield
    except Exception as error:
        if not _FAILED or error is _FAILED[0]:
            raise
        raise _FAILED[0] from None
    finally:
        _FAILED.clear()

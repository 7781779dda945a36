"""Other libraries' networks draw their weights from generators of the whole process: how to seed those for a while."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np

_DRAWING = threading.Lock()


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

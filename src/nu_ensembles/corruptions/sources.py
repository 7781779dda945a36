"""Where the random numbers come from: one stream for each image.

A corruption draws from NumPy's `Generator` or, to replay published draws, from a legacy `RandomState`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Source = np.random.Generator | np.random.RandomState


def image_source(seed: int, kind: int, severity: int, index: int) -> np.random.Generator:
    """The stream of image number `index` for corruption number `kind` at a severity.

    It depends on nothing else, so a data set can be cut into batches anywhere without changing the result.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=(kind, severity, index))))


def integers(source: Source, low: int, high: int, size: Any = None) -> np.ndarray:
    """Whole numbers in `low` … `high - 1`."""
    if isinstance(source, np.random.RandomState):
        return np.asarray(source.randint(low, high, size=size))
    return np.asarray(source.integers(low, high, size=size))

"""The handwritten digits that come with scikit-learn: real data that needs no download (UCI, 1998)."""

from __future__ import annotations

import numpy as np

from nu_ensembles.checks import checked


@checked
def load_digits(*, images: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Loads the 1,797 handwritten digits, about 180 of each class, with grey levels from 0 to 16.

    Args:
      images: give the images as they are for a convolutional network, instead of a row of pixels each.

    Returns:
      X: float32 `[1797, 64]`, or uint8 `[1797, 8, 8, 1]` with `images=True`.
      y: int64 `[1797]`, the digit.
    """
    from sklearn.datasets import load_digits as bundled

    pixels, labels = bundled(return_X_y=True)
    X, y = np.asarray(pixels), np.asarray(labels, dtype=np.int64)
    return (X.astype(np.uint8).reshape(-1, 8, 8, 1), y) if images else (X.astype(np.float32), y)

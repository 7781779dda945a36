"""Two losses of the same rows: their difference, and whether it is more than noise."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.stats import t as student_t

LEVEL = 0.95


def paired_difference(losses: np.ndarray, reference: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean of `losses - reference` over samples `[N]`, and its standard error."""
    weight = weight / weight.sum()
    difference = losses - reference
    mean = float(np.sum(weight * difference))
    # sum w² (d - mean)², with the small-sample factor n/(n-1): for equal weights the usual s²/n.
    n = max(len(difference), 2)
    variance = float(np.sum(np.square(weight * (difference - mean)))) * n / (n - 1)
    return mean, variance**0.5


@dataclasses.dataclass(frozen=True)
class Gain:
    """A relative change of NLL against a reference on the same rows: -0.06 is 6 % lower.

    half_width: of its 95 % interval; infinite if there are too few rows for one.
    """

    relative: float
    half_width: float

    @classmethod
    def of(cls, losses: np.ndarray, reference: np.ndarray, weight: np.ndarray) -> Gain:
        """From two losses `[N]` of the same rows."""
        difference, error = paired_difference(losses, reference, weight)
        # A reference that is certain and right everywhere has no loss to be compared with.
        level = max(float(np.sum(reference * weight) / weight.sum()), float(np.finfo(np.float32).tiny))
        n = len(losses)
        width = float(student_t.ppf(0.5 + LEVEL / 2, n - 1)) if n > 1 else np.inf
        return cls(difference / level, width * error / level if n > 1 else np.inf)

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero, also as it is shown: in tenths of a percent."""
        return round(100 * abs(self.relative), 1) > round(100 * self.half_width, 1)

    def in_words(self) -> str:
        percent, around = 100 * abs(self.relative), 100 * self.half_width
        return f"{percent:.1f} % ± {around:.1f} {'lower' if self.relative < 0 else 'higher'}"

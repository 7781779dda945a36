"""What the paper claims, and whether it came out. The rule is written down here and on every page.

A claim is a paired difference over seeds, ν minus standard, in a direction. With Δ its mean and its 95 % Student-t
interval over seeds, it *holds* if the interval lies on the claimed side of zero and |Δ| is at least half of the
published difference; it is *smaller* if the interval lies on that side but |Δ| is less than half. It *does not hold* if
the interval reaches zero but not half of the published difference. An interval that holds both (or, where nothing was
published, zero) leaves the claim *not settled*, as one seed does. "Comparable accuracy" holds if the interval lies
above -2 percentage points and does not if it lies below.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from nu_ensembles_studies.declare.published import table_value
from nu_ensembles_studies.declare.study import Place, Row
from nu_ensembles_studies.results.intervals import Interval
from nu_ensembles_studies.results.results import Results

RULE = (
    "A claim holds if the 95 % interval (Student's t over seeds) of the paired difference lies on the claimed side of "
    "zero and the mean difference is at least half of the published one; it is smaller if the interval lies on that "
    "side but the mean is less than half. It does not hold if the interval reaches zero but not half of the published "
    "difference; where it reaches both, the seeds do not settle it. Where nothing was published, an interval on either "
    "side of zero decides. Comparable accuracy holds if the interval lies above −2 percentage points, and does not if "
    "it lies below."
)
HOLDS, SMALLER, FAILS, OPEN = "holds", "smaller", "does not hold", "not settled"
LEAST_SHARE = 0.5
ACCURACY_MARGIN = 0.02
LOWERED = ("ece", "tace", "brier_reliability", "nll", "mutual_information")


@dataclasses.dataclass(frozen=True)
class Claim:
    """One thing that the paper says, at one place.

    Attributes:
      text: the claim in words.
      metric: which score.
      published: the published difference, or None.
      measured: ours, paired over seeds.
      verdict: "holds", "smaller", "does not hold" or "not settled".
    """

    place: Place
    text: str
    metric: str
    published: float | None
    measured: Interval
    verdict: str

    @classmethod
    def about(
        cls, place: Place, metric: str, measured: Interval, published: float | None = None, *, text: str = ""
    ) -> Claim:
        """That the accuracy is comparable, or that another score is lower than the standard ensemble's."""
        if metric == "accuracy":
            claimed, verdict = "comparable accuracy", comparable_verdict(measured)
        else:
            # A published difference in the other direction claims nothing about the size.
            size = published if published is not None and published < 0 else None
            claimed, verdict = "lower than standard", lowering_verdict(measured, size)
        return cls(place, text.format(claimed) or claimed, metric, published, measured, verdict)


def lowering_verdict(measured: Interval, published: float | None) -> str:
    """For claims that a score falls; `published` is negative or None."""
    if math.isnan(measured.half_width):
        return OPEN
    worthwhile = LEAST_SHARE * published if published is not None else 0.0
    low, high = measured.mean - measured.half_width, measured.mean + measured.half_width
    if high < 0:
        return HOLDS if measured.mean <= worthwhile else SMALLER
    return FAILS if low > worthwhile else OPEN


def comparable_verdict(measured: Interval, margin: float = ACCURACY_MARGIN) -> str:
    """For claims that a score does not fall by more than a margin."""
    if math.isnan(measured.half_width):
        return OPEN
    if measured.mean - measured.half_width > -margin:
        return HOLDS
    return FAILS if measured.mean + measured.half_width < -margin else OPEN


def claims_of_nu(results: Results, metrics: Sequence[str] = ("accuracy", *LOWERED)) -> list[Claim]:
    """Comparable accuracy and other scores lower than the standard ensemble's, wherever both were measured."""
    found = []
    for place, standard, nu in results.pairs():
        claims = [_claim(results, place, standard, nu, metric) for metric in metrics]
        # Of a place where no seed has been trained with both, nothing can be said, not even that it is not settled.
        if not all(math.isnan(claim.measured.mean) for claim in claims):
            found += claims
    return found


def _claim(results: Results, place: Place, standard: Row, nu: Row, metric: str) -> Claim:
    stated = [table_value(place.dataset, place.model, row.method, metric) for row in (nu, standard)]
    published = None
    if place.n_train == 1000 and stated[0] is not None and stated[1] is not None:
        published = stated[0] - stated[1]
    return Claim.about(place, metric, results.difference(nu, standard, metric), published)

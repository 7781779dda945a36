"""What the demo says in words. It says what was measured, whichever way it came out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.results.intervals import Interval


def verdict(comparison: Comparison, betas: Sequence[float], fixed_beta: float) -> list[str]:
    """Sentences on what nu gains over the early-stopped and over the last-epoch standard ensemble.

    Args:
      comparison: with the rows "nu_auto", "nu_fixed", "standard_early" and "standard_last".
      betas: what the search chose on each seed.
      fixed_beta: of the row "nu_fixed".
    """
    n = len(comparison.seeds)
    splits = f"{n} splits" if n > 1 else "one split, which gives no intervals"
    nll = comparison.mean("nu_auto", "nll").mean
    early, last = (_relative_nll(comparison, reference) for reference in ("standard_early", "standard_last"))
    sentences = [
        f"ν (auto) has a test NLL of {nll:.3f} over {splits}: {early} the early-stopped standard ensemble and "
        f"{last} the one trained to the last epoch."
    ]
    n_standard = sum(beta == 0 for beta in betas)
    if n_standard:
        where = "its only split" if n == 1 else f"{n_standard} of {n} splits"
        sentences.append(f"Its search found no β that helps, and so trained a standard ensemble, on {where}.")
    sentences.append(
        f"β fixed at {fixed_beta:g} takes the last epoch's ECE from {_mean(comparison, 'standard_last', 'ece')} to "
        f"{_mean(comparison, 'nu_fixed', 'ece')} ({_change(comparison, 'ece')}) and its accuracy from "
        f"{_mean(comparison, 'standard_last', 'accuracy', 1, 100)} % to "
        f"{_mean(comparison, 'nu_fixed', 'accuracy', 1, 100)} % ({_change(comparison, 'accuracy', 1, 100)})."
    )
    return sentences


def _relative_nll(comparison: Comparison, reference: str) -> str:
    """ "4.0 % ± 1.1 lower than", with a word on whether the interval settles it."""
    difference = comparison.difference("nu_auto", "nll", reference)
    if difference.mean == 0 and not difference.half_width > 0:
        return "the same as"  # it is that ensemble, on every split
    level = comparison.mean(reference, "nll").mean
    relative = Interval(difference.mean / level, difference.half_width / level)
    around = "" if math.isnan(relative.half_width) else f" ± {100 * relative.half_width:.1f}"
    direction = "lower" if relative.mean <= 0 else "higher"
    return f"{100 * abs(relative.mean):.1f} %{around} {direction}{_in_doubt(relative, ' ({})')} than"


def _mean(comparison: Comparison, row: str, metric: str, digits: int = 3, scale: float = 1.0) -> str:
    return f"{scale * comparison.mean(row, metric).mean:.{digits}f}"


def _change(comparison: Comparison, metric: str, digits: int = 3, scale: float = 1.0) -> str:
    """What a fixed beta does to the last epoch."""
    difference = comparison.difference("nu_fixed", metric, "standard_last")
    return difference.text(digits, scale, signed=True) + _in_doubt(difference, ": {}")


def _in_doubt(difference: Interval, form: str) -> str:
    """Empty if the interval excludes zero, or if there is none."""
    if math.isnan(difference.half_width) or difference.excludes_zero:
        return ""
    return form.format("no clear difference")

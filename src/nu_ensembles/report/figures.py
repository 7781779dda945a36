"""Figures of predictions: reliability (top label and per class), member agreement, risk against coverage.

Every function draws into `ax` (or into a new figure) and returns the axes. Nothing touches matplotlib's global
state, so figures neither leak nor need a display; `axes.figure.savefig(…)` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.errors import InputError
from nu_ensembles.metrics.bootstrap import resample_counts
from nu_ensembles.metrics.calibration import binned_ece, equal_width_bins
from nu_ensembles.metrics.diversity import mean_over_pairs, pairwise_mutual_information
from nu_ensembles.metrics.inputs import check_predictions
from nu_ensembles.metrics.selective import aurc, risk_coverage
from nu_ensembles.metrics.weighting import Values, unit_weights
from nu_ensembles.report.bins import band, bin_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One meaning each, on every page: what is reported on, its intervals, what it is compared with, what is wrong.
INK, ACCENT, SOFT, PALE = "#222222", "#1f5fa8", "#9dbfe3", "#c8c8c8"
BEFORE, WRONG = "#8b6f47", "#b3261e"
HIGHLIGHTS = ("#c0392b", "#d68910", "#7d3c98", "#148f77", "#1f5fa8")


def reliability_diagram(
    probs: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    n_bins: int = 15,
    interval: float | None = 0.95,
    n_resamples: int = 500,
    histogram: bool = True,
    title: str | None = None,
    seed: int = 0,
) -> Axes:
    """Accuracy against confidence of the top label, with a bootstrap band and a histogram of confidences.

    Points below the diagonal are over-confident. A band that covers the diagonal is no evidence of
    miscalibration.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      ax: where to draw, the histogram hanging below it; None makes a new figure.
      n_bins: equal-width bins, as in `metrics.ece`.
      interval: level of the band, None for no band.
      n_resamples: bootstrap resamples behind the band.
      histogram: draw the histogram of confidences.
      title: shown above; None shows the ECE.
      seed: of the bootstrap.
    """
    predictions = check_predictions(probs, labels)
    confidence = predictions.confidence
    bins = equal_width_bins(confidence, n_bins)
    plain = unit_weights(len(bins))
    ax = _new_axes() if ax is None else ax
    at = bin_means(bins, confidence, n_bins, plain)[:, 0]
    accuracy = bin_means(bins, predictions.right, n_bins, plain)[:, 0]
    share = np.bincount(bins, minlength=n_bins) / len(bins)
    filled = share > 0
    _diagonal(ax)
    if interval is not None:
        _check_level(interval)
        weights = resample_counts(np.random.default_rng(seed), len(bins), n_resamples)
        low, high = band(bin_means(bins, predictions.right, n_bins, weights)[filled], interval)
        ax.fill_between(at[filled], low, high, color=SOFT, alpha=0.45, linewidth=0)
    ax.plot(at[filled], accuracy[filled], color=ACCENT, linewidth=1.2)
    ax.scatter(at[filled], accuracy[filled], s=8 + 60 * share[filled] / share.max(), color=ACCENT, zorder=3)
    error = float(binned_ece(predictions, plain, n_bins)[0])
    ax.set_title(f"ECE {error:.3f}" if title is None else title, fontsize=10)
    ax.set_ylabel("accuracy")
    lowest = _histogram_below(ax, share) if histogram else ax
    lowest.set_xlabel("confidence")
    return ax


def class_reliability(
    probs: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    n_bins: int = 10,
    n_highlighted: int = 5,
    class_names: Sequence[str] | None = None,
) -> Axes:
    """Frequency of each class against its stated probability: one line a class, the worst ones in colour.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      ax: where to draw; None makes a new figure.
      n_bins: equal-width bins per class.
      n_highlighted: classes with the largest calibration error to name, at most 5.
      class_names: C names for the legend; None shows numbers.
    """
    predictions = check_predictions(probs, labels)
    n_samples, n_classes = predictions.probs.shape
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(f"{len(class_names)} class names for {n_classes} classes: give one for each.")
    columns = np.arange(n_classes)
    cells = (columns * n_bins + equal_width_bins(predictions.probs, n_bins)).ravel()
    counts = np.bincount(cells, minlength=n_classes * n_bins).reshape(n_classes, n_bins)
    stated = np.bincount(cells, predictions.probs.ravel(), n_classes * n_bins).reshape(n_classes, n_bins)
    outcome = (predictions.labels[:, None] == columns).ravel()
    happened = np.bincount(cells, outcome, n_classes * n_bins).reshape(n_classes, n_bins)
    errors = np.abs(stated - happened).sum(axis=1) / n_samples
    worst = np.argsort(-errors, kind="stable")[: min(n_highlighted, len(HIGHLIGHTS))]
    colours = dict(zip(worst.tolist(), HIGHLIGHTS, strict=False))
    ax = _new_axes() if ax is None else ax
    _diagonal(ax)
    for c in [*(c for c in columns if c not in colours), *worst]:
        filled = counts[c] > 0
        x, y = stated[c, filled] / counts[c, filled], happened[c, filled] / counts[c, filled]
        name = str(c) if class_names is None else class_names[c]
        label = f"{name} ({errors[c]:.3f})" if c in colours else None
        ax.plot(x, y, color=colours.get(int(c), PALE), linewidth=1.3 if c in colours else 0.8, label=label)
    if colours:
        ax.legend(title="largest errors", fontsize=8, title_fontsize=8, frameon=False, loc="upper left")
    ax.set(xlabel="stated probability of the class", ylabel="frequency of the class")
    return ax


def member_agreement(member_probs: ArrayLike, ax: Axes | None = None, *, bias_corrected: bool = False) -> Axes:
    """Matrix of the pairwise mutual information of members' predicted classes, in bits.

    The colour scale ends at the largest entropy of a member (the diagonal, left white), which two members that
    always agree would reach.

    Args:
      member_probs: `[K, N, C]`.
      ax: where to draw; None makes a new figure.
      bias_corrected: Grassberger's estimate instead of the plug-in one.
    """
    matrix = pairwise_mutual_information(member_probs, bias_corrected=bias_corrected)
    n_members = len(matrix)
    if n_members < 2:
        raise InputError("Agreement compares members but there is one: give [K, N, C] with K of at least 2.")
    mean = float(mean_over_pairs(matrix))
    shown = np.where(np.eye(n_members, dtype=bool), np.nan, matrix)
    ax = _new_axes() if ax is None else ax
    image = ax.imshow(shown, cmap="Blues", vmin=0.0, vmax=max(float(np.diag(matrix).max()), 1e-9))
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="mutual information (bits)")
    ax.set(xticks=range(n_members), yticks=range(n_members), xlabel="member", ylabel="member")
    ax.set_title(f"mean {mean:.3f} bits", fontsize=10)
    return ax


def risk_coverage_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    colour: str = ACCENT,
) -> Axes:
    """Error rate among the most confident share of samples, against that share.

    Call it again with the same `ax` to compare models. Dotted: the error rate of answering everything, which
    is also what a confidence without information would give at every coverage.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      ax: where to draw; None makes a new figure.
      label: for the legend, to which the area under the curve is added.
      colour: of the line.
    """
    curve = risk_coverage(probs, labels)
    ax = _new_axes() if ax is None else ax
    area = f"AURC {aurc(probs, labels):.3f}"
    ax.step(curve.coverage, curve.risk, where="post", color=colour, label=f"{label}: {area}" if label else area)
    ax.axhline(float(curve.risk[-1]), color=colour, linestyle=":", linewidth=0.8)
    ax.set(xlim=(0, 1), xlabel="coverage (share answered)", ylabel="risk (share of errors)")
    # room for the legend above the highest curve so far
    ax.set_ylim(0.0, 1.2 * max(float(np.max(line.get_ydata())) for line in ax.lines) + 1e-9)
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    return ax


def _new_axes() -> Axes:
    """Axes of a new figure that belongs to nobody but the caller."""
    from matplotlib.figure import Figure

    return Figure(figsize=(4.2, 4.6), layout="constrained").subplots()


def _diagonal(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    ax.set(xlim=(0, 1), ylim=(0, 1))


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"interval is {level}: give a level between 0 and 1, such as 0.95, or None.")


def _histogram_below(ax: Axes, share: Values) -> Axes:
    """Hangs a strip with the share of samples per bin under `ax`."""
    n_bins = len(share)
    strip = ax.inset_axes((0.0, -0.3, 1.0, 0.24), sharex=ax)
    strip.bar((np.arange(n_bins) + 0.5) / n_bins, share, width=0.92 / n_bins, color=SOFT)
    strip.set_ylabel("share", fontsize=8)
    ax.tick_params(labelbottom=False)
    return strip

"""The pictures of a report on one's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.metrics.bootstrap import resample_counts
from nu_ensembles.metrics.calibration import equal_width_bins
from nu_ensembles.metrics.weighting import unit_weights
from nu_ensembles.report.bins import band, bin_means
from nu_ensembles.report.figures import ACCENT, BEFORE, INK, SOFT
from nu_ensembles.report.svg import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BINS = 10
RESAMPLES = 400
# Inches: nearly square, so that letters stay legible on a phone.
SIZE = (6.2, 5.6)
# Bins of fewer rows are hollow: such a share says little.
FEW = 10


def before_and_after(
    before: tuple[np.ndarray, np.ndarray] | None, after: tuple[np.ndarray, np.ndarray], before_name: str
) -> Axes:
    """Accuracy against confidence: of what is compared with, and, with a 95 % band, of the ensemble.

    Args:
      before: confidence and rightness (0 or 1) of each prediction, or None for nothing to compare with.
      after: the same of the ensemble.
      before_name: what to call it.
    """
    ax = new_axes(*SIZE)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":")
    ax.text(0.02, 0.055, "as sure as right", rotation=42, fontsize=9, color=INK, alpha=0.7)
    strip = ax.inset_axes((0.0, -0.24, 1.0, 0.16), sharex=ax)
    if before is not None:
        _curve(ax, strip, *before, colour=BEFORE, name=before_name, filled=False)
    _curve(ax, strip, *after, colour=ACCENT, name="this ensemble", filled=True)
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    ax.set_ylabel("share that is right")
    ax.tick_params(labelbottom=False)
    strip.set_xlabel("confidence of the prediction")
    strip.set_yticks([])
    strip.set_ylabel("rows", fontsize=9)
    for each in (ax, strip):
        each.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left", fontsize=10)
    return ax


def _curve(
    ax: Axes, strip: Axes, confidence: np.ndarray, right: np.ndarray, *, colour: str, name: str, filled: bool
) -> None:
    bins, plain = equal_width_bins(confidence, N_BINS), unit_weights(len(confidence))
    counts = np.bincount(bins, minlength=N_BINS)
    there = counts > 0
    at = bin_means(bins, confidence, N_BINS, plain)[there, 0]
    share = bin_means(bins, right, N_BINS, plain)[there, 0]
    if filled:
        weights = resample_counts(np.random.default_rng(0), len(bins), RESAMPLES)
        low, high = band(bin_means(bins, right, N_BINS, weights)[there], 0.95)
        ax.fill_between(at, low, high, color=SOFT, alpha=0.45, linewidth=0)
    many = counts[there] >= FEW
    ax.plot(at, share, color=colour, linewidth=2.2 if filled else 1.6, linestyle="-" if filled else "--", label=name)
    ax.scatter(at[many], share[many], s=44, color=colour, zorder=3)
    ax.scatter(at[~many], share[~many], s=44, facecolors="none", edgecolors=colour, linewidths=1.4, zorder=3)
    height = counts / counts.max()
    centres, width = (np.arange(N_BINS) + 0.5) / N_BINS, 0.9 / N_BINS
    if filled:
        strip.bar(centres, height, width=width, color=SOFT)
    else:
        strip.bar(centres, height, width=width, fill=False, edgecolor=colour, linewidth=1.0, linestyle="--")


def confidences(confidence: np.ndarray) -> Axes:
    """How many rows are predicted with which confidence."""
    ax = new_axes(6.2, 3.0)
    counts = np.bincount(equal_width_bins(confidence, 20), minlength=20)
    ax.bar((np.arange(20) + 0.5) / 20, counts, width=0.9 / 20, color=ACCENT)
    ax.set(xlim=(0, 1), xlabel="confidence of the prediction", ylabel="rows")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def kept_accuracy(coverage: np.ndarray, risk: np.ndarray, chosen: float, accuracy: float) -> Axes:
    """Accuracy among the most confident rows, against their share."""
    ax = new_axes(6.2, 3.4)
    ax.step(coverage, 1 - risk, where="post", color=ACCENT, linewidth=2)
    ax.axhline(1 - float(risk[-1]), color=BEFORE, linestyle="--", linewidth=1.4)
    ax.scatter([chosen], [accuracy], s=52, color=ACCENT, zorder=3)
    lowest = float(np.min(1 - risk))
    bottom = max(0.0, lowest - 0.05 * (1.02 - lowest))
    ax.set(xlim=(0, 1.01), ylim=(bottom, 1.01))
    ax.set_yticks([tick for tick in ax.get_yticks() if bottom <= tick <= 1])  # no share is above one
    ax.set(xlabel="share of rows that are answered, the surest first", ylabel="accuracy among them")
    ax.spines[["top", "right"]].set_visible(False)
    return ax

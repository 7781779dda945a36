"""The one place where probabilities and labels enter the metrics.

Everything behind this door works on float64 mean probabilities `[N, C]`, float members `[K, N, C]` and
int64 labels `[N]`, and trusts them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import shown
from nu_ensembles.errors import InputError

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from one (1e-2 where the input has half precision)."""


class Predictions(NamedTuple):
    """Mean predictions on labelled samples.

    probs: `[N, C]` float64.
    labels: `[N]`.
    predicted: argmax of each row, ties to the lowest class, `[N]`.
    confidence: max of each row, `[N]`.
    right: 1.0 where predicted = label, else 0.0, `[N]`.
    """

    probs: NDArray[np.float64]
    labels: Ints
    predicted: Ints
    confidence: NDArray[np.float64]
    right: NDArray[np.float64]


def check_member_probs(member_probs: ArrayLike) -> Floats:
    """Returns `[K, N, C]` probabilities; `[N, C]` counts as one member.

    Raises:
      InputError: wrong shape, not finite, negative, logits or log-probabilities, rows that don't sum to one.
    """
    probs = _as_array(member_probs, "Probabilities")
    if probs.ndim == 2:
        probs = probs[None]
    if probs.ndim != 3 or 0 in probs.shape:
        raise InputError(
            f"Probabilities have shape {np.shape(member_probs)}: give [members, samples, classes], "
            "or [samples, classes] for a single predictor, with at least one sample."
        )
    if probs.shape[2] < 2:
        raise InputError("Probabilities have one class only: for a binary problem give both columns, [1 - p, p].")
    tolerance = SUM_TOLERANCE
    if probs.dtype not in (np.float32, np.float64):
        tolerance = 1e-2 if probs.dtype.itemsize == 2 else SUM_TOLERANCE
        wrong_type = InputError(f"Probabilities have dtype {probs.dtype}: give floating-point numbers.")
        if probs.dtype.kind == "c":
            raise wrong_type
        try:
            probs = probs.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise wrong_type from error
    _check_values(probs, tolerance)
    return probs


def _as_array(values: ArrayLike, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{what} come in rows of different lengths: give an array.") from None


def _check_values(probs: Floats, tolerance: float) -> None:
    lowest, highest = float(probs.min()), float(probs.max())
    # min and max propagate nan, so two cheap reductions find every non-finite entry.
    if not (np.isfinite(lowest) or lowest == -np.inf) or not np.isfinite(highest):
        raise InputError("Probabilities contain NaN or infinity: check the model's output before scoring it.")
    sums = np.einsum("knc->kn", probs)
    worst = float(np.abs(sums - 1.0).max())
    if lowest >= 0.0 and worst <= tolerance:
        return
    if highest <= 0.0 and np.allclose(np.exp(probs).sum(axis=-1), 1.0, atol=tolerance):
        raise InputError("These look like log-probabilities: give probabilities, np.exp(values).")
    if lowest == -np.inf:
        raise InputError("Probabilities contain NaN or infinity: check the model's output before scoring it.")
    if lowest < 0.0 and worst > tolerance:
        raise InputError("These look like logits (negative values, rows that don't sum to one): apply a softmax first.")
    if highest > 1.0 + tolerance and worst > tolerance:
        raise InputError("These look like logits (values above one): apply a softmax first.")
    if lowest < 0.0:
        raise InputError(f"Probabilities contain the negative value {lowest:.3g}: all must lie in [0, 1].")
    raise InputError(
        f"Probabilities must sum to one over the classes: a row is off by {worst:.3g} (tolerance {tolerance:g})."
    )


def check_labels(labels: ArrayLike, n_samples: int, n_classes: int) -> Ints:
    """Returns int64 labels `[N]` in 0 … C-1."""
    array = _as_array(labels, "Labels")
    if array.shape != (n_samples,):
        raise InputError(
            f"Labels have shape {array.shape} but the probabilities hold {n_samples} samples: give one "
            "integer per sample."
        )
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and np.array_equal(array, np.round(array)))
    if not whole:
        raise InputError("Labels must be integers 0 … C-1: pass classes=clf.classes_ to evaluate, or encode the names.")
    integers = array.astype(np.int64)
    if integers.min() < 0 or integers.max() >= n_classes:
        raise InputError(
            f"Labels run from {integers.min()} to {integers.max()} but the probabilities have {n_classes} "
            f"classes: labels must lie in 0 … {n_classes - 1}."
        )
    return integers


def class_numbers(labels: ArrayLike, classes: ArrayLike) -> Ints:
    """The number of each label's class, int64 `[N]`.

    Args:
      classes: labels of any type, in the order of the probabilities.
    """
    known, found = np.atleast_1d(_as_array(classes, "Classes")), _as_array(labels, "Labels")
    for array, what in ((known, "classes"), (found, "labels")):
        if array.dtype == object and not all(isinstance(each, Hashable) for each in array.ravel().tolist()):
            raise InputError(f"{what} must be names or numbers, not {shown(array.ravel().tolist())}.")
    numbers = {label: number for number, label in enumerate(known.ravel().tolist())}
    if known.ndim != 1 or len(numbers) < len(known):
        raise InputError(
            f"classes is {shown(known.tolist())}: name each class once, in the order of the probabilities."
        )
    strange = [label for label in dict.fromkeys(found.ravel().tolist()) if label not in numbers]
    if strange:
        raise InputError(f"The label {strange[0]!r} is not among the classes {known.tolist()}.")
    return np.array([numbers[label] for label in found.ravel().tolist()], np.int64).reshape(found.shape)


def mean_probability(member_probs: Floats) -> NDArray[np.float64]:
    """Mean over members `[K, N, C]` -> `[N, C]`, accumulated in float64."""
    return np.asarray(np.mean(member_probs, axis=0, dtype=np.float64))


def summarise(members: Floats, labels: Ints) -> Predictions:
    """What the metrics of the mean prediction need, from checked `[K, N, C]` and `[N]`."""
    probs = mean_probability(members)
    predicted = probs.argmax(axis=1)
    right = (predicted == labels).astype(np.float64)
    return Predictions(probs, labels, predicted, probs.max(axis=1), right)


def check_predictions(probs: ArrayLike, labels: ArrayLike) -> Predictions:
    """`[N, C]` probabilities, or `[K, N, C]`, which are averaged, with their labels `[N]`, checked."""
    members = check_member_probs(probs)
    return summarise(members, check_labels(labels, *members.shape[1:]))

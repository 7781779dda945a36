"""All metrics of an ensemble at once, with bootstrap intervals if asked for.

The one place that turns predictions into a table row: the estimator, the studies and the command line call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import check_array, check_whole, checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.bootstrap import Statistics, interval, resampled, wilson
from nu_ensembles.metrics.brier_terms import argmax_terms, class_gaps, exact_terms
from nu_ensembles.metrics.calibration import binned_ece, debiased_ece
from nu_ensembles.metrics.calibration_variants import binned_top_label_ece
from nu_ensembles.metrics.diversity import (
    label_variance,
    mean_over_pairs,
    member_predictions,
    pair_disagreement,
)
from nu_ensembles.metrics.equal_mass import TACE_DEFAULTS, equal_mass_error, sorted_classes
from nu_ensembles.metrics.information import Votes, joint_predictions, pair_information
from nu_ensembles.metrics.inputs import (
    Floats,
    Ints,
    Predictions,
    check_labels,
    check_member_probs,
    class_numbers,
    summarise,
)
from nu_ensembles.metrics.scores import label_nll, label_probability, squared_distance
from nu_ensembles.metrics.selective import member_entropy, row_entropy, weighted_aurc, weighted_auroc
from nu_ensembles.metrics.weighting import Values, Weights, unit_weights, weighted_mean

N_BINS = 15

RANGES = (
    dict.fromkeys(("nll", "member_nll", "entropy", "epistemic", "mutual_information"), (0.0, np.inf))
    | dict.fromkeys(("overconfidence", "accuracy_gain", "nll_gain"), (-np.inf, np.inf))
    | dict.fromkeys(("brier_exact_resolution", "mutual_information_corrected"), (-np.inf, np.inf))
    | dict.fromkeys(("brier", "brier_reliability", "brier_exact_reliability"), (0.0, 2.0))
    | {"variance": (0.0, 0.125)}
)
"""Where a metric's interval ends at the latest; (0, 1) for all others."""

PROPORTIONS = frozenset({"accuracy", "member_accuracy", "disagreement"})
"""Metrics that are shares of rows: at 0 and 1, where every resample says the same, they have Wilson's interval."""

CORRECTED = frozenset(
    {"ece_debiased", "brier_exact_reliability", "brier_exact_resolution", "mutual_information_corrected"}
)
"""Metrics that take off their own bias."""


@checked
def evaluate(
    member_probs: Sequence[ArrayLike] | ArrayLike,
    labels: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    intervals: float | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Scores an ensemble on labelled data.

    Args:
      member_probs: `[K, N, C]` probabilities of the members (`[N, C]` for one), or several runs of it: a list
        of such arrays, or `[S, K, N, C]`. With several runs each value is the mean over runs.
      labels: `[N]`, integers 0 … C-1, or what `classes` names.
      classes: `[C]`, labels of any type in the order of the probabilities, such as `clf.classes_`.
      intervals: a level such as 0.95 adds `NAME_low` and `NAME_high` for every metric: a bootstrap over
        samples and, where several runs are given, over runs; Wilson's for shares of 0 and 1.
      n_resamples: bootstrap resamples.
      seed: of the bootstrap.

    Returns:
      by name,

      - accuracy, nll, brier: of the mean probability;
      - ece, ece_debiased, ece_classwise, ece_top_label, tace, tace_nixon, and overconfidence, which is mean
        confidence less accuracy;
      - brier_reliability, brier_resolution, brier_uncertainty: the paper's, by predicted class;
      - brier_exact_reliability, brier_exact_resolution: with the same uncertainty they add up to the Brier score;
      - error_auroc, aurc: does confidence rank errors last;
      - mutual_information, mutual_information_corrected (bits), variance (V-hat), disagreement, epistemic, entropy
        (nats): how the members differ;
      - member_accuracy, member_nll: means over members; accuracy_gain, nll_gain: what averaging adds to them.

      `nan` where a quantity does not exist: mutual information and disagreement of one member, error_auroc
      without errors (or without anything correct), nll_gain when both terms are infinite. `nll` is `inf` when
      a label has probability 0.
    """
    runs = _runs(member_probs)
    if intervals is not None and not (isinstance(intervals, Real) and 0.0 < intervals < 1.0):
        raise InputError(f"intervals is {shown(intervals)}: give a level between 0 and 1, such as 0.95.")
    n_resamples = check_whole(n_resamples, "n_resamples", most=10_000_000)
    plain: list[dict[str, float]] = []
    draws: list[dict[str, Values]] = []
    if classes is not None:
        labels = class_numbers(labels, classes)
    run_labels: Ints = np.zeros(0, np.int64)
    for run in runs:
        members = check_member_probs(run)
        if classes is not None and np.size(classes) != members.shape[2]:
            raise InputError(f"There are {np.size(classes)} classes for {members.shape[2]} columns of probabilities.")
        run_labels = check_labels(labels, *members.shape[1:])
        statistics = ensemble_statistics(members, run_labels, reuse=intervals is not None)
        plain.append({name: float(v[0]) for name, v in statistics(unit_weights(len(run_labels))).items()})
        if intervals is not None:
            draws.append(resampled(statistics, len(run_labels), n_resamples, seed))
    scores = {name: float(np.mean([row[name] for row in plain])) for name in plain[0]}
    if intervals is None:
        return scores
    for name, value in list(scores.items()):
        stacked = np.stack([draw[name] for draw in draws])
        bounds = interval(
            value, stacked, intervals, seed, within=RANGES.get(name, (0.0, 1.0)), centred=name in CORRECTED
        )
        if name in PROPORTIONS and value in (0.0, 1.0):
            # Every resample of rows that are all right, or all wrong, is the same.
            bounds = wilson(value, len(run_labels), intervals)
        scores[f"{name}_low"], scores[f"{name}_high"] = bounds
    return scores


def _runs(member_probs: ArrayLike | Sequence[ArrayLike]) -> list[NDArray[np.generic]]:
    """One array per run: splits `[S, K, N, C]` or a list of `[K, N, C]`."""
    if isinstance(member_probs, (list, tuple)) and all(np.ndim(run) == 3 for run in member_probs):
        runs = [np.asarray(run) for run in member_probs]
    else:
        array = check_array(member_probs, "member_probs")
        runs = list(array) if array.ndim == 4 else [array]
    if not runs:
        raise InputError("No predictions were given: pass at least one run of shape [members, samples, classes].")
    return runs


def ensemble_statistics(members: Floats, labels: Ints, *, reuse: bool) -> Statistics:
    """Does the work that no resample changes, and returns the function weights `[N, R]` -> metrics `[R]`.

    Args:
      members: `[K, N, C]`, checked.
      labels: `[N]`, checked.
      reuse: keep the sorted order of each class for further calls instead of making it on the fly.
    """
    predictions = summarise(members, labels)
    votes, n_classes = member_predictions(members), members.shape[2]
    means = _sample_values(members, predictions, votes)
    stored_pairs = tuple(joint_predictions(votes, n_classes)) if reuse else None
    stored_orders = {
        variant: tuple(sorted_classes(predictions, threshold)) if reuse else None
        for variant, (_, threshold) in TACE_DEFAULTS.items()
    }

    def equal_mass(variant: str, weights: Weights) -> Values:
        n_bins, threshold = TACE_DEFAULTS[variant]
        orders = stored_orders[variant]
        orders = sorted_classes(predictions, threshold) if orders is None else orders
        return equal_mass_error(predictions, weights, orders, n_bins, variant)

    def information(weights: Weights) -> tuple[Values, Values]:
        if len(members) == 1:
            undefined = np.full(weights.shape[1], np.nan)
            return undefined, undefined
        pairs = joint_predictions(votes, n_classes) if stored_pairs is None else stored_pairs
        plug_in, corrected = pair_information(votes, n_classes, weights, pairs)
        return mean_over_pairs(plug_in), mean_over_pairs(corrected)

    def statistics(weights: Weights) -> dict[str, Values]:
        values = {name: weighted_mean(per_sample, weights) for name, per_sample in means.items()}
        values["accuracy_gain"] = values["accuracy"] - values["member_accuracy"]
        with np.errstate(invalid="ignore"):
            values["nll_gain"] = values["member_nll"] - values["nll"]
        values["ece"] = binned_ece(predictions, weights, N_BINS)
        values["ece_debiased"] = debiased_ece(predictions, weights, N_BINS)
        values["ece_top_label"] = binned_top_label_ece(predictions, weights, N_BINS)
        absolute, squared = class_gaps(predictions, weights, N_BINS)
        values["ece_classwise"] = absolute / n_classes
        values["tace"] = equal_mass("paper", weights)
        values["tace_nixon"] = equal_mass("nixon", weights)
        terms = argmax_terms(predictions, weights)
        values["brier_reliability"], values["brier_resolution"], values["brier_uncertainty"] = terms
        exact = exact_terms(predictions, weights, squared)
        values["brier_exact_reliability"], values["brier_exact_resolution"], _ = exact
        values["error_auroc"] = weighted_auroc(predictions.confidence, predictions.right, weights)
        values["aurc"] = weighted_aurc(predictions.confidence, 1.0 - predictions.right, weights)
        values["mutual_information"], values["mutual_information_corrected"] = information(weights)
        return values

    return statistics


def _sample_values(members: Floats, predictions: Predictions, votes: Votes) -> dict[str, Values]:
    """Metrics that are plain means over samples: name -> `[N]`."""
    labels = predictions.labels
    label_probs = label_probability(members, labels)
    entropy = row_entropy(predictions.probs)
    return {
        "accuracy": predictions.right,
        "nll": label_nll(label_probability(predictions.probs, labels)),
        "brier": squared_distance(predictions),
        "overconfidence": predictions.confidence - predictions.right,
        "variance": label_variance(label_probs),
        "disagreement": pair_disagreement(votes),
        "entropy": entropy,
        "epistemic": np.maximum(entropy - member_entropy(members), 0.0),
        "member_accuracy": (votes == labels).mean(axis=0),
        "member_nll": label_nll(label_probs).mean(axis=0),
    }

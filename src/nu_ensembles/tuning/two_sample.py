"""Do the labelled and the unlabelled rows come from the same distribution? A classifier two-sample test.

Classifiers learn to tell the two sets apart and are scored on rows that they were not trained on: an AUROC of
0.5 means that they cannot. Lopez-Paz and Oquab, *Revisiting Classifier Two-Sample Tests*, 2017.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import ks_2samp, norm, rankdata

# More rows than this a side hardly narrow the interval (±.01), and the test should take seconds.
MOST_ROWS = 2000
# Rows wider than this are described by their principal components.
MOST_FEATURES = 50
NORMAL_95 = 1.96


@dataclasses.dataclass(frozen=True)
class Shift:
    """How well the two sets can be told apart.

    Attributes:
      auroc: of the better of two classifiers, cross-validated; low, high: its 95 % interval.
      p_value: of the hypothesis that the sets cannot be told apart, corrected for having two classifiers.
      features: the columns that differ most, clearest first; empty where none does, or columns have no names.
    """

    auroc: float
    low: float
    high: float
    p_value: float
    features: tuple[str, ...] = ()


def two_sample_test(
    x: np.ndarray, x_unlabeled: np.ndarray, feature_names: Sequence[str] | None = None, seed: int = 0
) -> Shift | None:
    """Tests whether `x` `[N, …]` and `x_unlabeled` `[M, …]` can be told apart; None if either has less than 10 rows."""
    rng = np.random.default_rng(seed)
    parts = [_subsample(rows, rng) for rows in (x, x_unlabeled)]
    if min(len(part) for part in parts) < 10:
        return None
    rows = np.concatenate(parts)
    inside = np.repeat([True, False], [len(part) for part in parts])
    features = tuple(_differing_features(parts[0], parts[1], feature_names)) if feature_names is not None else ()
    rows = rows[:, rows.std(axis=0) > 0]
    if rows.shape[1] == 0:
        return Shift(0.5, 0.5, 0.5, 1.0)
    # A mean that moved a little in every direction shows in a linear score, a changed spread only in a forest's.
    found = [_auroc(scores, inside) for scores in _held_out_scores(rows, inside, seed)]
    auroc, error = max(found)
    n, m = int(inside.sum()), int((~inside).sum())
    null_error = ((n + m + 1) / (12 * n * m)) ** 0.5
    p_value = min(1.0, len(found) * float(norm.sf((auroc - 0.5) / null_error)))
    low, high = np.clip([auroc - NORMAL_95 * error, auroc + NORMAL_95 * error], 0.0, 1.0)
    return Shift(auroc, float(low), float(high), p_value, features)


def _subsample(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At most `MOST_ROWS` rows, flat and float64."""
    if len(rows) > MOST_ROWS:
        rows = rows[rng.choice(len(rows), MOST_ROWS, replace=False)]
    return rows.reshape(len(rows), -1).astype(np.float64)


def _held_out_scores(rows: np.ndarray, inside: np.ndarray, seed: int) -> list[np.ndarray]:
    """Out-of-fold scores `[N + M]` of a logistic regression and of a random forest."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    if rows.shape[1] > MOST_FEATURES:
        rows = PCA(min(MOST_FEATURES, len(rows)), random_state=seed, svd_solver="randomized").fit_transform(rows)
        rows = rows / rows.std(axis=0).max()
    classifiers = (
        LogisticRegression(class_weight="balanced", C=0.1, max_iter=300),
        RandomForestClassifier(
            n_estimators=100, min_samples_leaf=5, max_samples=0.5, class_weight="balanced", random_state=seed
        ),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    predicted = (cross_val_predict(each, rows, inside, cv=folds, method="predict_proba") for each in classifiers)
    return [np.asarray(probabilities)[:, 1] for probabilities in predicted]


def _auroc(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """AUROC of scores `[N]` and its standard error, by DeLong, DeLong and Clarke-Pearson (1988)."""
    own = rankdata(scores[positive]), rankdata(scores[~positive])
    everyone = rankdata(scores)
    # Each row's share of opponents that it beats: what is left of its rank without its own side.
    of_positive = (everyone[positive] - own[0]) / len(own[1])
    of_negative = 1.0 - (everyone[~positive] - own[1]) / len(own[0])
    variance = of_positive.var(ddof=1) / len(own[0]) + of_negative.var(ddof=1) / len(own[1])
    return float(of_positive.mean()), float(variance) ** 0.5


def _differing_features(x: np.ndarray, u: np.ndarray, names: Sequence[str], most: int = 3) -> list[str]:
    """The columns with the largest Kolmogorov-Smirnov distance, if significant after correction for their number."""
    distance, p_value = np.array([tuple(ks_2samp(x[:, column], u[:, column])) for column in range(x.shape[1])]).T
    order = np.argsort(-distance, kind="stable")[:most]
    return [str(names[column]) for column in order if p_value[column] * len(p_value) < 0.01]

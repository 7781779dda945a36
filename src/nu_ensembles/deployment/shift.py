"""Do the labelled and the unlabelled rows come from the same distribution? A classifier two-sample test.

Classifiers learn to tell the two sets apart and are scored on rows that they were not trained on: an AUROC of
0.5 means that they cannot. Lopez-Paz and Oquab, *Revisiting Classifier Two-Sample Tests*, 2017.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import ks_2samp, norm, rankdata

from nu_ensembles.problem import Problem

# More rows than this a side hardly narrow the interval (±.02), and every fit does the test: it should take a second.
MOST_ROWS = 500
FEWEST_ROWS = 10
TREES = 60
# Rows wider than this are described by their principal components.
MOST_FEATURES = 50
MODERATE_WIDTH = 1000
NORMAL_95 = 1.96
# The sets differ where the test says so at this level.
LEVEL = 0.01
# Sets that a classifier tells apart this well are no samples of one distribution in any useful sense.
FAR_APART = 0.75
# Above it there is hardly a row of the one set that could be of the other.
DISJOINT = 0.995
N_CLASSIFIERS = 2


@dataclasses.dataclass(frozen=True)
class Shift:
    """How well the two sets can be told apart.

    Attributes:
      auroc: the statistic, of the better of two classifiers, cross-validated; low, high: its 95 % interval.
      p_value: of the hypothesis that the sets cannot be told apart, corrected for having two classifiers.
      features: the columns that differ most, clearest first; empty where none does, or columns have no names.
      power: how likely so many rows would have shown (at level .01) sets that a classifier tells apart with an AUROC
        of .75.
    """

    auroc: float
    low: float
    high: float
    p_value: float
    features: tuple[str, ...] = ()
    power: float = 1.0

    @property
    def statistic(self) -> float:
        """The AUROC."""
        return self.auroc

    @property
    def p(self) -> float:
        """The p-value."""
        return self.p_value

    @property
    def differs(self) -> bool:
        """Whether the test says that the sets are of different distributions."""
        return self.p_value < LEVEL

    def in_words(self) -> str:
        """How well they are told apart, and by what."""
        columns = f", most by {', '.join(self.features)}" if self.features else ""
        return f"told apart with AUROC {self.auroc:.2f}{columns}"

    @property
    def is_disjoint(self) -> bool:
        """Whether (nearly) every row can be told apart: then no row of the one set is like the other's."""
        return self.differs and self.auroc >= DISJOINT


def two_sample_test(
    x: np.ndarray, x_unlabeled: np.ndarray, feature_names: Sequence[str] | None = None, seed: int = 0
) -> Shift | None:
    """Tests whether `x` `[N, …]` and `x_unlabeled` `[M, …]` can be told apart; None if either has less than 10 rows.

    Its size and power as measured stand in results/two-sample-test.json.
    """
    rng = np.random.default_rng(seed)
    parts = [_subsample(rows, rng) for rows in (x, x_unlabeled)]
    if min(len(part) for part in parts) < FEWEST_ROWS:
        return None
    rows = np.concatenate(parts)
    inside = np.repeat([True, False], [len(part) for part in parts])
    features = tuple(_differing_features(parts[0], parts[1], feature_names)) if feature_names is not None else ()
    rows = rows[:, rows.std(axis=0) > 0]
    n, m = int(inside.sum()), int((~inside).sum())
    power = power_of(n, m)
    if rows.shape[1] == 0:
        return Shift(0.5, 0.5, 0.5, 1.0, power=power)
    # A mean that moved a little in every direction shows in a linear score, a changed spread only in a forest's.
    found = [_auroc(scores, inside) for scores in _held_out_scores(rows, inside, seed)]
    auroc, error = max(found)
    p_value = min(1.0, len(found) * float(norm.sf((auroc - 0.5) / _null_error(n, m))))
    low, high = np.clip([auroc - NORMAL_95 * error, auroc + NORMAL_95 * error], 0.0, 1.0)
    return Shift(auroc, float(low), float(high), p_value, features, power)


def two_sample_of(problem: Problem) -> Shift | None:
    """The test on the scaled rows of a problem; None where there are too few to test, or none unlabelled."""
    if problem.x_unlabeled is None:
        return None
    x, u = problem.compared(problem.x), problem.compared(problem.x_unlabeled)
    return two_sample_test(x, u, problem.feature_names)


def differs_from_all_labelled(shift: Shift | None, problem: Problem, validation_x: np.ndarray | None = None) -> bool:
    """Whether unlabelled rows differ from the labelled ones, and from validation rows, if there are any.

    Validation rows from the deployment tell more than unlabelled ones: then the usual search goes by these.

    Args:
      shift: what the test on the problem says.
      validation_x: rows scaled as the problem's are.
    """
    if shift is None or not shift.differs or problem.x_unlabeled is None:
        return False
    if validation_x is None:
        return True
    from_there = two_sample_test(problem.compared(validation_x), problem.compared(problem.x_unlabeled))
    return from_there is not None and from_there.differs


def unseen_columns(problem: Problem, most: int = 3) -> list[str]:
    """Columns of a table that are the same in all labelled rows, and not in the unlabelled ones."""
    x, u = problem.x, problem.x_unlabeled
    if u is None or x.ndim != 2 or problem.pixels:
        return []
    constant = np.flatnonzero((x == x[:1]).all(axis=0))
    names = problem.feature_names or [f"column {number + 1}" for number in range(x.shape[1])]
    return [str(names[each]) for each in constant if (u[:, each] != x[0, each]).any()][:most]


def power_of(n: int, m: int, auroc: float = FAR_APART) -> float:
    """How likely `n` and `m` rows show scores of this AUROC; its variance by Hanley and McNeil (1982)."""
    beats_two, both_beat = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    variance = auroc * (1 - auroc) + (n - 1) * (beats_two - auroc**2) + (m - 1) * (both_beat - auroc**2)
    least = 0.5 + norm.isf(LEVEL / N_CLASSIFIERS) * _null_error(n, m)
    return float(norm.cdf((auroc - least) / (variance / (n * m)) ** 0.5))


def _null_error(n: int, m: int) -> float:
    """The standard error of an AUROC of rows that cannot be told apart."""
    return ((n + m + 1) / (12 * n * m)) ** 0.5


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
    from threadpoolctl import threadpool_limits

    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    if rows.shape[1] > MOST_FEATURES:
        # Of a moderate width the covariance is small, and its eigenvectors cost a thousandth of a decomposition.
        solver = "covariance_eigh" if rows.shape[1] <= MODERATE_WIDTH else "randomized"
        rows = PCA(min(MOST_FEATURES, len(rows)), random_state=seed, svd_solver=solver).fit_transform(rows)
        rows = rows / rows.std(axis=0).max()
    classifiers = (
        LogisticRegression(class_weight="balanced", C=0.1, max_iter=300),
        RandomForestClassifier(
            n_estimators=TREES, min_samples_leaf=5, max_samples=0.5, class_weight="balanced", random_state=seed
        ),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    # On matrices this small more threads than one only wait for each other, at half of the test's processor time.
    with threadpool_limits(1):
        predicted = [cross_val_predict(each, rows, inside, cv=folds, method="predict_proba") for each in classifiers]
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

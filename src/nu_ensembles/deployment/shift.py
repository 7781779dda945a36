"""Do the labelled and the unlabelled rows come from the same distribution? A classifier two-sample test.

Classifiers learn to tell the two sets apart and are scored on rows that they were not trained on: an AUROC of
0.5 means that they cannot. Lopez-Paz and Oquab, *Revisiting Classifier Two-Sample Tests*, 2017. Whether they can is
asked of permutations, which few rows mislead no more often than many (`telling_apart.py`); a random forest is grown
only where the sets differ, to say how far they are apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import ks_2samp, norm, rankdata
from threadpoolctl import threadpool_limits

from nu_ensembles.deployment.telling_apart import FOLDS, told_apart
from nu_ensembles.problem import Problem, thrown_together
from nu_ensembles.rows import LazyRows

# More rows than this a side hardly narrow the interval (±.02), and every fit does the test: it should cost little.
MOST_ROWS = 500
FEWEST_ROWS = 2 * FOLDS
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


@dataclasses.dataclass(frozen=True)
class Shift:
    """How well the two sets can be told apart.

    Attributes:
      auroc: of the best classifier, on rows that it was not trained on; low, high: its 95 % interval.
      p_value: of the hypothesis that the sets cannot be told apart; by 399 permutations, so it is .0025 at least.
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
    # Equal rows keep no order that tells where they are from.
    order = rng.permutation(len(parts[0]) + len(parts[1]))
    rows, inside = np.concatenate(parts)[order], order < len(parts[0])
    rows = rows[:, rows.std(axis=0) > 0]
    n, m = map(len, parts)
    if rows.shape[1] == 0:
        return Shift(0.5, 0.5, 0.5, 1.0, power=power_of(n, m))
    # On matrices this small more threads than one only wait for each other, at half of the test's processor time.
    with threadpool_limits(1):
        columns = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        rows = _few_columns(columns, seed)
        one_by_one = columns if columns.shape[1] <= MODERATE_WIDTH else rows
        p_value, best = told_apart(one_by_one, rows, inside, rng)
    found = float(best.auroc[0]), _error(best.beats[inside], best.beats[~inside])
    features: Sequence[str] = ()
    if p_value < LEVEL:
        found = max(found, _auroc(_of_forest(rows, inside, seed), inside))
        features = () if feature_names is None else _differing_features(parts[0], parts[1], feature_names)
    auroc, error = found
    low, high = np.clip([auroc - NORMAL_95 * error, auroc + NORMAL_95 * error], 0.0, 1.0)
    power = power_of(n, m, least=float(np.quantile(best.auroc[1:], 1 - LEVEL)))
    return Shift(auroc, float(low), float(high), p_value, tuple(features), power)


def two_sample_of(problem: Problem) -> Shift | None:
    """The test on the scaled rows of a problem; None where there are too few to test, or none unlabelled."""
    if problem.x_unlabeled is None:
        return None
    x, u = comparable(problem, problem.x), comparable(problem, problem.x_unlabeled)
    return two_sample_test(x, u, problem.feature_names)


def comparable(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Rows of a problem, or scaled like them, in a form in which sets of them can be compared."""
    return rows if problem.sparse_columns is None else thrown_together(rows)


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
    from_there = two_sample_test(comparable(problem, validation_x), comparable(problem, problem.x_unlabeled))
    return from_there is not None and from_there.differs


def unseen_columns(problem: Problem, most: int = 3) -> list[str]:
    """Columns of a table that are the same in all labelled rows, and not in the unlabelled ones."""
    if not _has_columns(problem):
        return []
    constant = np.flatnonzero((problem.x == problem.x[:1]).all(axis=0))
    return _names_of(problem, constant[_varies(problem, constant, problem.x[0], most)])[:most]


def settled_columns(problem: Problem, most: int = 3) -> list[str]:
    """Columns of a table that are the same in all unlabelled rows, and not in the labelled ones, nor by chance."""
    if not _has_columns(problem):
        return []
    u = problem.x_unlabeled
    assert u is not None, "such a problem has columns to compare"
    varying = np.flatnonzero((problem.x != problem.x[:1]).any(axis=0))
    settled = varying[~_varies(problem, varying, np.asarray(u[:1])[0], len(varying))]
    # A value that nearly all labelled rows have, too, may be that of some unlabelled ones by chance.
    commonest = np.array([np.unique(problem.x[:, each], return_counts=True)[1].max() for each in settled])
    return _names_of(problem, settled[(commonest / len(problem.x)) ** len(u) < LEVEL])[:most]


def _has_columns(problem: Problem) -> bool:
    """Whether there are columns to compare, of labelled and of unlabelled rows."""
    u = problem.x_unlabeled
    return u is not None and len(u) > 0 and problem.x.ndim == 2 and not problem.pixels


def _varies(problem: Problem, columns: np.ndarray, value: np.ndarray, most: int) -> np.ndarray:
    """bool `[len(columns)]`, whether an unlabelled row has another value; looks no further once so many have."""
    u = problem.x_unlabeled
    varies = np.zeros(len(columns), bool)
    for part in u.in_parts() if isinstance(u, LazyRows) else [u]:
        varies |= (part[:, columns] != value[columns]).any(axis=0)
        if varies.sum() >= min(most, len(columns)):
            break
    return varies


def _names_of(problem: Problem, columns: np.ndarray) -> list[str]:
    names = problem.feature_names or [f"column {number + 1}" for number in range(problem.x.shape[1])]
    return [str(names[each]) for each in columns]


def power_of(n: int, m: int, auroc: float = FAR_APART, least: float | None = None) -> float:
    """How likely `n` and `m` rows show scores of this AUROC; its variance by Hanley and McNeil (1982).

    Args:
      least: what has to be seen; by default what independent scores exceed by chance at the test's level.
    """
    beats_two, both_beat = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    variance = auroc * (1 - auroc) + (n - 1) * (beats_two - auroc**2) + (m - 1) * (both_beat - auroc**2)
    by_chance = 0.5 + float(norm.isf(LEVEL)) * ((n + m + 1) / (12 * n * m)) ** 0.5
    return float(norm.cdf((auroc - (by_chance if least is None else least)) / (variance / (n * m)) ** 0.5))


def _subsample(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At most `MOST_ROWS` rows, flat and float64."""
    if len(rows) > MOST_ROWS:
        rows = rows[rng.choice(len(rows), MOST_ROWS, replace=False)]
    return rows[:].reshape(len(rows), -1).astype(np.float64)


def _few_columns(rows: np.ndarray, seed: int) -> np.ndarray:
    """Scaled rows `[N, D]`; of wide ones principal components, the first of variance 1."""
    if rows.shape[1] <= MOST_FEATURES:
        return rows
    if rows.shape[1] <= MODERATE_WIDTH:
        # The covariance is small, and its eigenvectors cost a thousandth of a decomposition of the rows.
        _, vectors = np.linalg.eigh(rows.T @ rows)
        rows = rows @ vectors[:, : -MOST_FEATURES - 1 : -1]
    else:
        from sklearn.decomposition import PCA

        most = min(MOST_FEATURES, len(rows))
        rows = PCA(most, random_state=seed, svd_solver="randomized").fit_transform(rows)
    return rows / rows.std(axis=0).max()


def _of_forest(rows: np.ndarray, inside: np.ndarray, seed: int) -> np.ndarray:
    """Scores `[N]` by the trees that a row was left out of."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, min_samples_leaf=5, max_samples=0.5, oob_score=True, random_state=seed)
    return np.nan_to_num(forest.fit(rows, inside).oob_decision_function_[:, 1], nan=0.5)


def _auroc(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """AUROC of scores `[N]` and its standard error."""
    own = rankdata(scores[positive]), rankdata(scores[~positive])
    everyone = rankdata(scores)
    # Each row's share of opponents that it beats: what is left of its rank without its own side.
    of_positive = (everyone[positive] - own[0]) / len(own[1])
    of_negative = 1.0 - (everyone[~positive] - own[1]) / len(own[0])
    return float(of_positive.mean()), _error(of_positive, of_negative)


def _error(of_positive: np.ndarray, of_negative: np.ndarray) -> float:
    """The standard error of an AUROC from shares of opponents beaten; DeLong, DeLong and Clarke-Pearson (1988)."""
    variance = of_positive.var(ddof=1) / len(of_positive) + of_negative.var(ddof=1) / len(of_negative)
    return float(variance) ** 0.5


def _differing_features(x: np.ndarray, u: np.ndarray, names: Sequence[str], most: int = 3) -> list[str]:
    """The columns with the largest Kolmogorov-Smirnov distance, if significant after correction for their number."""
    distance, p_value = np.array([tuple(ks_2samp(x[:, column], u[:, column])) for column in range(x.shape[1])]).T
    order = np.argsort(-distance, kind="stable")[:most]
    return [str(names[column]) for column in order if p_value[column] * len(p_value) < 0.01]

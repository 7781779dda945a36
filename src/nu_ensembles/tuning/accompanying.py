"""The companion that goes with what a search chose, and what is said of it.

The weight in the pool is learnt from predictions of rows that neither side was trained on: the networks' are those of
the search, the forest's are made on the same folds. What is claimed was scored on folds that had no part in learning
the weight. (The networks' length was chosen on all folds, which flatters them, not the pool.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nu_ensembles.calibration import pool, pooling_weights
from nu_ensembles.companion import Companion, grow
from nu_ensembles.metrics.paired import Gain
from nu_ensembles.metrics.scores import label_probability
from nu_ensembles.metrics.temperature import log_probability
from nu_ensembles.problem import plain_seed
from nu_ensembles.training import TrainingJob
from nu_ensembles.tuning.choice import SearchResult, parts_of
from nu_ensembles.tuning.folds import held_out_of
from nu_ensembles.tuning.scores import OutOfFold

FOREST = "forest"
TREES = 300
# In a fold, where there are many forests to grow: a third of the trees ranks rows all but as well.
TREES_OF_A_FOLD = 100


class Accompanied(NamedTuple):
    """What a fit keeps of its companion.

    companion: what is pooled with the networks; None where nothing is.
    probabilities: `[N, C]`, what the pool says out of fold, each fold with the weight that the others give.
    sentence: what the verdict says of it; empty where none was asked for.
    """

    companion: Companion | None
    probabilities: np.ndarray | None
    sentence: str


def accompanied(result: SearchResult, job: TrainingJob) -> Accompanied:
    """The companion of a job, with the weight that suits the out-of-fold predictions of what the search chose."""
    found = result.out_of_fold
    networks, forests = found.probabilities[result.chosen[0]], out_of_fold_forests(job, found)
    pooled = _pooled_out_of_fold(networks, forests, found)
    weight = _weight(networks, forests, found, np.full(len(found.y), True))
    gain = Gain.of(_losses(pooled, found), _losses(networks, found), found.weight)
    rows = job.rows
    forest = grow(rows.x, rows.y, found.n_classes, n_trees=TREES, seed=_seed(job, 0), weight=_weights(rows.weight))
    return Accompanied(Companion(forest.forest, weight), pooled, _sentence(weight, gain, found))


def out_of_fold_forests(job: TrainingJob, found: OutOfFold) -> np.ndarray:
    """What forests say of the rows that the search held out `[N, C]`, each grown on the rows of the same fold."""
    rows, folds = held_out_of(job, found.folds)
    total, times = np.zeros((len(found.rows), found.n_classes)), np.zeros(len(found.rows))
    for number, fold in enumerate(folds, start=1):
        x, y, weight = rows.x[fold.train], rows.y[fold.train], _weights(rows.weight[fold.train])
        seed = _seed(job, number)
        grown = grow(x, y, found.n_classes, n_trees=TREES_OF_A_FOLD, seed=seed, weight=weight)
        where = np.searchsorted(found.rows, fold.held_out)
        total[where] += grown.forest.probabilities(rows.x[fold.held_out])
        times[where] += 1
    return total / times[:, None]


def _pooled_out_of_fold(networks: np.ndarray, forests: np.ndarray, found: OutOfFold) -> np.ndarray:
    """`[N, C]`, each part of the rows with the weight that the other parts give."""
    pooled, part_of = np.empty_like(networks), parts_of(found)
    for part in np.unique(part_of):
        here = part_of == part
        others = ~here if (~here).any() else here  # a single row has no others, and claims nothing
        weight = _weight(networks, forests, found, others)
        pooled[here] = pool([networks[here], forests[here]], [1.0 - weight, weight])
    return pooled


def _weight(networks: np.ndarray, forests: np.ndarray, found: OutOfFold, rows: np.ndarray) -> float:
    """That of the forest, as some of the rows give it."""
    both = [networks[rows], forests[rows]]
    return float(pooling_weights(both, found.y[rows], weight=found.weight[rows])[1])


def _losses(probabilities: np.ndarray, found: OutOfFold) -> np.ndarray:
    return -label_probability(log_probability(probabilities), found.y)


def _weights(weight: np.ndarray) -> np.ndarray | None:
    """Of rows that train; None where all are alike, which scikit-learn computes in another, faster way."""
    return None if (weight == weight[0]).all() else weight.astype(np.float64)


def _seed(job: TrainingJob, number: int) -> int:
    """Of the forest of a fold; that of all rows has the number 0."""
    words = np.atleast_1d(plain_seed(job.key))
    return int(np.random.default_rng([*words, number, 53]).integers(np.iinfo(np.int32).max))


def _sentence(weight: float, gain: Gain, found: OutOfFold) -> str:
    where = "on the validation rows" if len(np.unique(found.fold_of)) == 1 else "out of fold"
    told = f"NLL {gain.in_words()} than the networks alone {where}" if gain.is_clear else f"no clear gain {where}"
    return f" Pooled with a tempered forest of weight {weight:.2f} (companion={FOREST!r}): {told}."

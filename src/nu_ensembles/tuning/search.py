"""Beta and the number of steps, chosen together by out-of-fold NLL.

Overconfidence grows with training, and so does what beta does about it: neither can be chosen without the other.
Every candidate is one trajectory per fold, scored at log-spaced steps; all share initialisations, batches and
random labels, so differences are paired. `choice.py` has the rule: never meaningfully worse than a standard ensemble
that was itself stopped at the right time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.engine.assembly import Settings, label_key, on_device
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.compilation import use_persistent_cache
from nu_ensembles.engine.program import Lanes
from nu_ensembles.engine.progress import progress_bar
from nu_ensembles.inputs import check_positive, check_whole
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Method
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.fold_by_fold import along_a_training, fold_by_fold
from nu_ensembles.tuning.folds import Fold, with_validation
from nu_ensembles.tuning.pool import LanePool
from nu_ensembles.tuning.scores import OutOfFold

# Where the grid goes on when its best value sits on the edge.
LARGER = (0.1, 0.3, 1.0)
SMALLER = (3e-5, 1e-5)
# However long the training may get, its first score is no later than this: few labels are overfitted soon.
EARLIEST_STOP = 50


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """How the search is done.

    Attributes:
      betas: candidates; with 0 among them the standard ensemble is the reference.
      n_members: lanes per fold, whose mean probability is scored; of a method whose members meet, give all members.
      n_stops: at how many log-spaced steps a trajectory is scored.
      tolerance: the smallest beta within so many paired standard errors of the best is taken, if its gain is clear.
      extend: whether the grid goes on when the best beta is its largest or smallest.
    """

    betas: tuple[float, ...] = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    n_members: int = 3
    n_stops: int = 12
    tolerance: float = 1.0
    extend: bool = True

    def __post_init__(self) -> None:
        check_whole(self.n_members, "n_members of the search")
        check_whole(self.n_stops, "n_stops")
        check_positive(self.tolerance, "tolerance", zero_allowed=True)

    def stops(self, max_steps: int) -> np.ndarray:
        """Log-spaced steps up to the longest training; a single stop is the last step."""
        if self.n_stops == 1:
            return np.array([max_steps])
        first = max(1, min(max_steps // 64, EARLIEST_STOP))
        return np.unique(np.geomspace(first, max_steps, self.n_stops).round().astype(int))


def search(
    problem: Problem,
    model: Model,
    method_of: Callable[[float], Method],
    folds: Sequence[Fold],
    settings: Settings,
    max_steps: int,
    seed: int | Array,
    *,
    how: SearchSettings | None = None,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    verbose: int = 0,
) -> SearchResult:
    """Tries all betas at all steps; a method whose members meet is one candidate and trains fold by fold.

    Args:
      method_of: the method with a given beta (kept as it is at 0, so that all candidates are one program).
      folds: of the labelled rows; ignored if `validation`, `(x, codes)` scaled as the problem is, takes their place.
      max_steps: the longest training.
    """
    use_persistent_cache()
    how = how or SearchSettings()
    if method_of(0.0).shape != "independent":
        stops = how.stops(max_steps)
        beta = max(how.betas)
        predict = along_a_training(model, method_of(beta), settings, how.n_members, stops, seed, verbose)
        found = fold_by_fold(problem, folds, stops, predict, beta=beta, validation=validation)
        return choose(found, how.tolerance)
    trial = _Trial(problem, model, method_of, folds, settings, how.stops(max_steps), seed, how.n_members, validation)
    losses = trial.run(sorted(set(how.betas)), verbose)
    while how.extend and (more := _beyond_the_edge(losses.best_beta, sorted(losses.betas))) is not None:
        losses = losses.joined(trial.run([more], verbose, rivals=losses))
    return choose(losses, how.tolerance)


def _beyond_the_edge(best: float, betas: list[float]) -> float | None:
    """The next beta to try when the best is the largest, or the smallest above zero; None if it is neither."""
    positive = [beta for beta in betas if beta > 0]
    if not positive:
        return None
    if best == positive[-1]:
        return next((beta for beta in LARGER if beta > best), None)
    if best == positive[0]:
        return next((beta for beta in SMALLER if beta < best), None)
    return None


class _Trial:
    """Lanes and data of a search, set up once, for any list of betas."""

    def __init__(
        self,
        problem: Problem,
        model: Model,
        method_of: Callable[[float], Method],
        folds: Sequence[Fold],
        settings: Settings,
        stops: np.ndarray,
        seed: int | Array,
        n_members: int,
        validation: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:
        self.method_of, self.settings, self.stops, self.n_members = method_of, settings, stops, n_members
        x, codes, weight = rows = problem.x, problem.codes, problem.weight
        if validation is not None:
            (x, codes, weight), folds = with_validation(rows, validation)
        self.folds, self.codes, self.weight, self.n_classes = folds, codes, weight, len(problem.classes)
        key = random_key(seed)
        method = method_of(0.0)
        u = problem.x_unlabeled if method.uses_unlabeled else None
        targets = None
        if u is not None:
            targets = method.unlabeled_targets(label_key(key), len(u), len(problem.classes), n_members)
        self.data = on_device(x, codes, weight, u, targets)
        self.program = settings.program(model, min(len(fold.train) for fold in folds), problem.n_unlabeled)
        # A fold's member k is the same network whatever the candidate: common random numbers.
        fold_keys = [jax.random.fold_in(key, fold) for fold in range(len(folds))]
        self.keys = jnp.stack([jax.random.fold_in(k, m) for k in fold_keys for m in range(n_members)])
        self.rows = np.repeat(_table([fold.train for fold in folds]), n_members, axis=0)
        self.n_rows = np.repeat([len(fold.train) for fold in folds], n_members)
        self.held_out = np.repeat(_table([fold.held_out for fold in folds]), n_members, axis=0)

    def run(self, betas: list[float], verbose: int, rivals: OutOfFold | None = None) -> OutOfFold:
        """Trajectories of all betas, scored at every stop; candidates that promise nothing are dropped.

        The smallest beta of the first round is what all others are compared with: it is measured wherever one of them
        is. A later round (`rivals` are the first one's) goes no further than it did.
        """
        per_candidate = len(self.folds) * self.n_members
        pool = LanePool(
            self.program,
            self._lanes(betas),
            self.data,
            np.tile(self.held_out, (len(betas), 1)),
            per_candidate,
            self.settings.plan,
        )
        found = OutOfFold.empty(np.array(betas), self.stops, self.codes, self.weight, self.folds, self.n_classes)
        remaining = list(range(len(betas)))
        stops = self.stops if rivals is None else self.stops[: rivals.n_measured(0)]
        total = int(stops[-1]) * per_candidate * len(betas)
        with progress_bar(f"choosing beta and steps ({len(betas)} candidates)", total, 0, verbose) as bar:
            for stop, step in enumerate(stops):
                pool.advance(int(step), bar.advance)
                for candidate in remaining:
                    lanes = candidate * per_candidate + np.arange(per_candidate)
                    members = pool.probabilities(lanes).reshape(len(self.folds), self.n_members, -1, self.n_classes)
                    found.add(candidate, stop, members.mean(axis=1))
                remaining = found.worth_going_on(remaining, stop, rivals)
                if not remaining:
                    break
                lanes = np.concatenate([c * per_candidate + np.arange(per_candidate) for c in remaining])
                pool.keep(lanes)
        return found

    def _lanes(self, betas: list[float]) -> Lanes:
        n_candidates, per_candidate = len(betas), len(self.keys)
        n_lanes = n_candidates * per_candidate
        members = np.tile(np.arange(self.n_members, dtype=np.int32), n_lanes // self.n_members)
        methods = [jax.tree.map(lambda v: jnp.full((per_candidate,), v, jnp.float32), self.method_of(b)) for b in betas]
        return Lanes(
            key=jnp.concatenate([self.keys] * n_candidates),
            member=jnp.asarray(members),
            rows=jnp.asarray(np.tile(self.rows, (n_candidates, 1))),
            n_rows=jnp.asarray(np.tile(self.n_rows, n_candidates), jnp.int32),
            method=jax.tree.map(lambda *parts: jnp.concatenate(parts), *methods),
            learning_rate=jnp.full((n_lanes,), self.settings.learning_rate, self.settings.dtype),
            weight_decay=jnp.full((n_lanes,), self.settings.weight_decay, self.settings.dtype),
        )


def _table(rows: list[np.ndarray]) -> np.ndarray:
    """Row lists of different lengths as one int32 table, padded with zeros to a power of two."""
    table = np.zeros((len(rows), padded_size(max(len(each) for each in rows))), np.int32)
    for number, each in enumerate(rows):
        table[number, : len(each)] = each
    return table

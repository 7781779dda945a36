"""What all trials of a search share: rows and folds, what is fixed, how long, what is scored; plain and picklable.

A trial is this and its parameters, and nothing else decides what it comes to: not when it runs, nor beside which
others, nor in which process.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.problem import Problem, random_key
from nu_ensembles.results_version import RESULTS_VERSION
from nu_ensembles.searches.naming import Fixed, chosen
from nu_ensembles.searches.objectives import Objective
from nu_ensembles.searches.space import Space
from nu_ensembles.training import TrainingJob, make_job
from nu_ensembles.tuning.folds import Fold, HeldOut, held_out_of
from nu_ensembles.tuning.scores import OutOfFold


@dataclasses.dataclass(frozen=True, eq=False)
class SearchSetting:
    """What all trials of a search share.

    Attributes:
      problem: the data, checked and scaled.
      folds: of the labelled rows; not looked at where there are validation rows.
      validation: further rows and class numbers, scaled as the problem's, or None.
      fixed: what a training is where the space says nothing.
      n_members: networks of a fold.
      n_steps: of the longest training.
      n_stops: at how many steps, evenly in their logarithm, a trial is scored.
      drops: whether a trial ends that is past its best.
    """

    problem: Problem
    folds: tuple[Fold, ...]
    validation: tuple[np.ndarray, np.ndarray] | None
    fixed: Fixed
    space: Space
    objectives: tuple[Objective, ...]
    n_members: int
    n_steps: int
    n_stops: int
    seed: int
    drops: bool = True

    @property
    def stops(self) -> np.ndarray:
        """int `[S]`, the steps at which trials are scored."""
        first = max(1, min(self.n_steps // 64, 50))
        return np.unique(np.geomspace(first, self.n_steps, self.n_stops).round().astype(int))

    def job(self, parameters: Mapping[str, Any]) -> TrainingJob:
        """The training of a trial.

        Raises:
          InputError: its parameters cannot be trained with.
        """
        choice = chosen(parameters, self.fixed)
        return make_job(
            self.problem,
            choice.model,
            choice.method,
            choice.settings,
            self.n_members,
            self.n_steps,
            random_key(self.seed),
            model_options=dict(choice.model_options),
            validation=self.validation,
        )

    def held_out(self, job: TrainingJob) -> HeldOut:
        """The rows that train and those that are scored."""
        return held_out_of(job, self.folds)

    def parts(self, found: OutOfFold) -> np.ndarray:
        """`[N]`, the part of each scored row where rows are judged by what the others chose: its fold, or its half."""
        _, parts = np.unique(found.fold_of, return_inverse=True)
        return parts if parts.max() else np.arange(len(parts)) % 2

    def final_steps(self, n_steps: int) -> int:
        """Steps of a training on all labelled rows that makes as many passes over them as one of a fold over its own.

        See `SearchResult.steps`.
        """
        factor = 1.0
        if self.validation is None:
            factor = len(self.problem.x) * len(self.folds) / sum(len(fold.train) for fold in self.folds)
        return int(min(round(n_steps * factor), self.n_steps))

    def fingerprint(self) -> str:
        """A SHA-256 of all that decides what a trial comes to."""
        held = (self.n_members, self.n_steps, self.n_stops, self.seed, self.drops, RESULTS_VERSION)
        fixed = dataclasses.replace(self.fixed, settings=dataclasses.replace(self.fixed.settings, plan="auto"))
        digest = hashlib.sha256(lasting_repr((self.space, self.objectives, fixed, held)).encode())
        problem = self.problem
        shown = () if self.validation is None else self.validation
        folds = (rows for fold in self.folds for rows in fold)
        for part in (problem.x, problem.y, problem.weight, problem.x_unlabeled, *shown, *folds):
            array = np.ascontiguousarray(np.zeros(0) if part is None else part)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

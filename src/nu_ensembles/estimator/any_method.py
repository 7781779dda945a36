"""A scikit-learn classifier for any method: checks what scikit-learn users pass, then hands over to training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from nu_ensembles import methods, tuning
from nu_ensembles.calibration import Calibrator
from nu_ensembles.checks import check_options, check_whole, checked
from nu_ensembles.deployment import differs_from_all_labelled, two_sample_of
from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import InputError
from nu_ensembles.estimator import kept
from nu_ensembles.estimator.arguments import problem_of, rows_beside, seed_of
from nu_ensembles.estimator.fitted import FittedEnsemble
from nu_ensembles.estimator.wanted import check_calibration, check_companion
from nu_ensembles.methods import AnyMethod
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem, labelled_pair, random_key
from nu_ensembles.tables import ColumnTypes
from nu_ensembles.training import FollowingRun, RunFolder, TrainingJob, make_job, predict_unlabeled, run_job, steps_in
from nu_ensembles.tuning import SearchSettings, Wanted, folds_of


class EnsembleClassifier(FittedEnsemble, BaseEstimator):
    """An ensemble trained by any method, for tables `[n, features]` and images `[n, height, width, channels]`.

    Args:
      method: "standard", "nu", …; see `nu.methods.METHODS`. A method itself will do, too: `nu.methods.Swag(last=0.3)`.
      n_members: how many networks (K).
      model: a built-in network's name or a `nu.Model`.
      method_options: what a method given by its name takes, as a dict.
      model_options: what a built-in network takes, as a dict.
      early_stopping: choose the number of steps by out-of-fold NLL instead of training for `max_iter` passes. For a
        method of several trainings (`nu.methods.Procedure`) the whole of it is tried at five lengths, fold by fold.
      max_iter: passes over the labelled rows, or the most that early stopping may choose.
      batch_size: labelled rows a member sees in a step.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate: of AdamW, constant.
      weight_decay: of AdamW, decoupled from the gradient.
      standardize: scale features to mean 0 and variance 1 over labelled and unlabelled rows; "auto" does so for
        tables (two axes, not bytes). Bytes are taken for pixels and divided by 255.
      augment: "flip_crop" or a callable, for labelled images.
      cv: folds for early stopping: a number, a scikit-learn splitter or an iterable of splits.
      class_weight: None, "balanced" or a dict.
      column_types: what columns of a table are, where their values do not tell; see `nu.fit`.
      calibration: how predicted probabilities are calibrated, out of fold: "auto" for what clearly gains, a name (see
        `nu.calibration.CALIBRATORS`), a `nu.calibration.Calibrator`, or None.
      temperature: True means calibration="temperature", the older way to say it.
      companion: "forest" pools the networks with a tempered random forest (`nu.TemperedForest`), with a weight that is
        learnt out of fold; for tables. None leaves them alone.
      unlabeled_label: rows of X whose label equals it are the unlabelled ones; None (default) means there are none.
      plan: how members run: "vectorised", "sequential", "sharded", or "auto" for the fastest here.
      deterministic: train to the same bits on a GPU, too, where it takes longer; a CPU does so anyway.
      random_state: seed.
      run_folder: where the fit keeps its checkpoints and, at its end, the model (in `model`).
      resume: go on from what `run_folder` holds of a killed fit with the same data, arguments and seed.
      checkpoint_seconds: how long at most between two checkpoints.
      verbose: 1 shows progress on a terminal.

    Attributes:
      ensemble_: the trained `nu.Ensemble`.
      classes_: `[C]`, in the order of the probabilities.
      n_steps_: how long it trained, in optimiser steps.
      n_iter_: the same in passes over the labelled rows.
      verdict_: what was chosen and what it gains, in one sentence.
      cv_results_: the evidence, columns of a table; None if nothing was chosen.
      search_: all that was tried; None if nothing was chosen.
      temperature_: found out of fold; nan if nothing was held out.
      shift_: the test whether X_unlabeled comes from where X comes from: `statistic` (AUROC of telling them apart), `p`
        and `power`; None without unlabelled rows, or with less than ten on a side.
      expected_: what to expect on X_unlabeled: `accuracy` with its interval `low`, `high`, errors by class, confidence
        where it is wrong; None where nothing can be said.
      priors_: class shares of X_unlabeled and of the labels, where a test says that these, and nothing else, differ;
        else None. `NuEnsembleClassifier` looks for them and moves its probabilities there.
      calibrator_: what `predict_proba` applies to the mean of the members; None for nothing.
      companion_: what that mean is pooled with before it is calibrated: `forest` and its `weight`; None for nothing.
    """

    # Of the command line: what it tells of the data, and where the model of a run folder goes besides.
    _further_notes: Mapping[str, Any] = MappingProxyType({})
    _also_in: Sequence[Path] = ()

    def __init__(
        self,
        method: str | AnyMethod = "standard",
        n_members: int = 10,
        model: str | Model = "mlp",
        *,
        method_options: dict[str, Any] | None = None,
        model_options: dict[str, Any] | None = None,
        early_stopping: bool = False,
        max_iter: int = 500,
        batch_size: int = 32,
        unlabeled_batch_size: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        standardize: bool | str = "auto",
        augment: str | Augmentation | None = None,
        cv: Any = 5,
        class_weight: dict[Any, float] | str | None = None,
        column_types: ColumnTypes | None = None,
        calibration: str | Calibrator | None = None,
        temperature: bool = False,
        companion: str | None = None,
        unlabeled_label: Any = None,
        plan: str = "auto",
        deterministic: bool = False,
        random_state: Any = None,
        run_folder: str | Path | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.n_members = n_members
        self.model = model
        self.method_options = method_options
        self.model_options = model_options
        self.early_stopping = early_stopping
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.unlabeled_batch_size = unlabeled_batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.augment = augment
        self.cv = cv
        self.class_weight = class_weight
        self.column_types = column_types
        self.calibration = calibration
        self.temperature = temperature
        self.companion = companion
        self.unlabeled_label = unlabeled_label
        self.plan = plan
        self.deterministic = deterministic
        self.random_state = random_state
        self.run_folder = run_folder
        self.resume = resume
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose

    def _wanted(self, row_shape: Sequence[int]) -> Wanted:
        """What is to be found beside the members, for rows of a shape."""
        calibrators = check_calibration(self.calibration, self.temperature)
        return Wanted(calibrators, check_companion(self.companion, row_shape))

    def _method_and_search(self, wanted: Wanted) -> tuple[AnyMethod, SearchSettings | None]:
        """What is trained, and how its length (and more) is searched for; None where nothing is to be chosen."""
        method = self.method
        if isinstance(method, str):
            method = methods.build(method, **(self.method_options or {}))
        elif self.method_options:
            raise InputError("method_options go with a method's name; this method has its options already.")
        return method, self._length_search(wanted)

    def _length_search(self, wanted: Wanted) -> SearchSettings | None:
        """The search of a length, or of a calibrator or a weight at the given one, where they are asked for."""
        if not self.early_stopping and not wanted.calibrators and not wanted.companion:
            return None
        return SearchSettings(betas=None, n_stops=None if self.early_stopping else 1)

    @checked
    def fit(
        self,
        X: Any,
        y: Any,
        X_unlabeled: Any = None,
        sample_weight: float | ArrayLike | None = None,
        validation: tuple[Any, Any] | None = None,
    ) -> Self:
        """Trains the ensemble.

        Args:
          X: `[n, …]`, labelled rows (and unlabelled ones, if `unlabeled_label` is set).
          y: `[n]`, labels of any type.
          X_unlabeled: `[m, …]`; wrap it as `nu.Unlabeled(U)` inside a `GridSearchCV`.
          sample_weight: `[n]`.
          validation: `(X, y)` that takes the place of the folds wherever something is chosen.
        """
        seed = seed_of(self.random_state)
        problem = problem_of(self, X, y, X_unlabeled, sample_weight)
        key = random_key(seed)
        wanted = self._wanted(problem.row_shape)
        folder = self._run_folder(seed, problem.classes)
        job, how = self._job_and_search(problem, validation, key, wanted)
        self.shift_ = two_sample_of(problem)
        validation_x = None if job.validation is None else job.validation.x
        elsewhere = wanted.deployment and differs_from_all_labelled(self.shift_, problem, validation_x)
        folds, result = [], None
        if how is not None and validation is None:
            folds = folds_of(self.cv, problem.y, seed, problem.row_numbers, _num_samples(X), problem.classes)
        # Only now, when the data and the options are known to be good, is anything written.
        with folder as run:
            # Every process searches alike, and the first keeps what was found.
            kept_by = None if isinstance(run, FollowingRun) else run
            if how is not None and elsewhere and self.shift_ is not None:
                result = tuning.search_under_shift(job, folds, how, self.shift_, run=kept_by, verbose=self.verbose)
            elif how is not None:
                result = tuning.search(job, folds, how, run=kept_by, verbose=self.verbose)
            if result is not None:
                job = job.replace(method=result.method_of(job.method), n_steps=result.n_steps)
            members = run_job(job, run=run, verbose=self.verbose)
            found = tuning.findings(job, result, self.shift_, wanted, predict_unlabeled(job, members))
            self.n_steps_, self.classes_, self.search_ = job.n_steps, problem.classes, result
            passes = max(1, round(job.n_steps * job.settings.batch_size / len(problem.x)))
            self.n_iter_ = min(int(self.max_iter), passes)
            self.verdict_, self.temperature_, self.cv_results_ = found.verdict, found.temperature, found.table
            self.calibrator_, self.companion_ = found.calibrator, found.companion
            self.expected_, self.priors_ = found.expected, found.priors
            beside: dict[str, Any] = {"calibrator": found.calibrator, "companion": found.companion}
            self.ensemble_ = job.ensemble(members, **beside, verdict=found.verdict, **self._further_notes)
            if run is not None:
                run.finish(kept.with_notes(self), self._also_in)
        return self

    def _job_and_search(
        self, problem: Problem, validation: tuple[Any, Any] | None, key: Array, wanted: Wanted
    ) -> tuple[TrainingJob, SearchSettings | None]:
        """The training as the arguments decide it, and the search that decides the rest, if one is to."""
        held_out = None
        if validation is not None:
            x, labels = labelled_pair(validation)
            held_out = problem.further_rows(rows_beside(x, "the validation x"), labels, "the validation x")
        method, how = self._method_and_search(wanted)
        # What has a sentence of its own was refused above.
        check_options(self.get_params(deep=False), type(self))
        max_iter = check_whole(self.max_iter, "max_iter")
        settings = Settings(
            batch_size=self.batch_size,
            unlabeled_batch_size=self.unlabeled_batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augment=self.augment,
            plan=self.plan,
            deterministic=self.deterministic,
        )
        n_steps = steps_in(max_iter, len(problem.x), settings.batch_size)
        job = make_job(
            problem,
            self.model,
            method,
            settings,
            self.n_members,
            n_steps,
            key,
            model_options=self.model_options,
            validation=held_out,
        )
        return job, how

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Sparse matrices are made dense, up to a size, and taken as pairs beyond it; NaN are gaps.
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def _run_folder(self, seed: int, classes: np.ndarray) -> AbstractContextManager[RunFolder | None]:
        """The folder of this fit, not entered yet; a resumed one must have been started with the same arguments."""
        if self.run_folder is None and not self.resume:
            return nullcontext()

        def asked() -> dict[str, Any]:
            where = ("run_folder", "resume", "checkpoint_seconds", "verbose")
            given = {name: value for name, value in self.get_params(deep=False).items() if name not in where}
            plain = {n: v if isinstance(v, str | int | float | None) else lasting_repr(v) for n, v in given.items()}
            return {**plain, "seed": seed}

        return RunFolder.wanted(self.run_folder, asked, self.resume, self.checkpoint_seconds, classes)

"""The scikit-learn face: `fit(X, y, X_unlabeled=U)`, `predict_proba(X)`.

`NuEnsembleClassifier` chooses beta and the length of training by itself; `EnsembleClassifier` runs any method.
Thin: the data go to `training.py`, the choice to `tuning/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from nu_ensembles import methods, tuning
from nu_ensembles.engine.assembly import Settings
from nu_ensembles.engine.augmentation import Augmentation, as_augmentation
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.plans import check_plan
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.inputs import Unlabeled, check_positive, check_rows, check_whole
from nu_ensembles.methods import LabelScheme, Method, Nu
from nu_ensembles.models import Model
from nu_ensembles.runs import RunFolder
from nu_ensembles.training import Problem, build_network, effective_method, fit_problem, prepare, validation_rows
from nu_ensembles.tuning import Fold, SearchResult, SearchSettings

# With fewer labels than this the folds are dealt twice: one deal would decide too much.
FEW_LABELS = 100


class EnsembleClassifier(ClassifierMixin, BaseEstimator):
    """An ensemble trained by any method, for tables `[n, features]` and images `[n, height, width, channels]`.

    Args:
      method: "standard", "nu", …; see `nu.methods.METHODS`.
      n_members: how many networks (K).
      model: a built-in network's name or a `nu.Model`.
      method_options, model_options: what the method and the built-in network take beside that, as dicts.
      early_stopping: choose the number of steps by out-of-fold NLL instead of training for `max_iter` passes.
      max_iter: passes over the labelled rows, or the most that early stopping may choose.
      batch_size, unlabeled_batch_size: rows a member sees in a step.
      learning_rate, weight_decay: of AdamW, constant.
      standardize: scale features to mean 0 and variance 1 over labelled and unlabelled rows; "auto" does so for
        tables (two axes, not bytes). Bytes are taken for pixels and divided by 255.
      augment: "flip_crop" or a callable, for labelled images.
      cv: folds for early stopping: a number, a scikit-learn splitter or an iterable of splits. A validation set given
        to `fit` replaces them.
      class_weight: None, "balanced" or a dict.
      temperature: scale the predicted probabilities by the out-of-fold temperature.
      unlabeled_label: rows of X whose label equals it are the unlabelled ones; None (default) means there are none.
      plan: how members run, see `nu_ensembles.engine.plans`.
      random_state: seed.
      run_folder: where the fit keeps the finished search and, every `checkpoint_seconds`, a checkpoint. With
        `resume=True` a killed fit with the same data, arguments and seed goes on from there, to the same bits on a CPU.
      verbose: 1 shows progress on a terminal.

    Attributes:
      classes_, n_features_in_, ensemble_ (a `nu.Ensemble`), n_steps_, n_iter_ (passes), temperature_ (out of fold; nan
      if nothing was held out), search_ (what was tried, or None), cv_results_ (columns of a table, or
      None), verdict_ (one sentence).
    """

    def __init__(
        self,
        method: str = "standard",
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
        temperature: bool = False,
        unlabeled_label: Any = None,
        plan: str = "auto",
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
        self.temperature = temperature
        self.unlabeled_label = unlabeled_label
        self.plan = plan
        self.random_state = random_state
        self.run_folder = run_folder
        self.resume = resume
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose

    # What differs between methods: the candidates of a search, and the method that is trained in the end.

    def _search_settings(self, method: Method) -> SearchSettings | None:
        """How to search, or None where nothing is to be chosen."""
        if not self.early_stopping and not self.temperature:
            return None
        n_stops = SearchSettings().n_stops if self.early_stopping else 1
        # One candidate, under its own beta if it has one.
        return SearchSettings(betas=(float(getattr(method, "beta", 0.0)),), n_stops=n_stops, extend=False)

    def _method(self) -> Method:
        return methods.build(self.method, **(self.method_options or {}))

    def _candidate(self, method: Method, beta: float) -> Method:
        """The method that stands for a beta in a search; here there is one candidate."""
        return method

    def fit(
        self,
        X: Any,
        y: Any,
        X_unlabeled: Any = None,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
    ) -> EnsembleClassifier:
        """Trains the ensemble.

        Args:
          X: `[n, …]`, labelled rows (and unlabelled ones, if `unlabeled_label` is set).
          y: `[n]`, labels of any type.
          X_unlabeled: `[m, …]`; wrap it as `nu.Unlabeled(U)` inside a `GridSearchCV`.
          sample_weight: `[n]`.
          validation: `(X, y)` that takes the place of the folds wherever something is chosen.
        """
        check_whole(self.n_members, "n_members")
        check_whole(self.max_iter, "max_iter")
        method = self._method()
        problem = self._problem(X, y, X_unlabeled, sample_weight)
        method = effective_method(method, problem.n_unlabeled)
        network = build_network(self.model, problem, self.model_options or {})
        settings = self._settings()
        check_plan(self.plan, method)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        max_steps = self.max_iter * math.ceil(len(problem.x) / self.batch_size)
        how = self._search_settings(method)
        folds = [] if how is None or validation is not None else self._folds(problem, seed)
        held_out = None if validation is None else validation_rows(problem, validation)
        # Only now, when the data and the options are known to be good, is anything written.
        run = self._run_folder(seed)
        result = None
        if how is not None:
            result = tuning.recorded_search(
                None if run is None else run.folder,
                problem,
                network,
                lambda beta: self._candidate(method, beta),
                folds,
                settings,
                max_steps,
                seed,
                how=how,
                validation=held_out,
                verbose=self.verbose,
            )
            method = self._candidate(method, result.beta).effective()
        self.n_steps_ = max_steps if result is None else result.n_steps
        params, model_state = fit_problem(
            problem,
            network,
            method,
            settings,
            range(self.n_members),
            self.n_steps_,
            seed,
            run=run,
            verbose=self.verbose,
        )
        if run is not None:
            run.finish()
        self._describe(method, result)
        self.classes_ = problem.classes
        self.n_iter_ = max(1, round(self.n_steps_ * self.batch_size / len(problem.x)))
        self.ensemble_ = Ensemble(
            model=network,
            params=params,
            model_state=model_state,
            classes=problem.classes,
            row_shape=problem.x.shape[1:],
            standardisation=problem.standardisation,
            pixels=problem.pixels,
            temperature=self.temperature_ if self.temperature else 1.0,
            training={
                "method": method.name,
                "hyper_parameters": methods.hyper_parameters(method),
                "seed": seed,
                "n_steps": self.n_steps_,
                "batch_size": self.batch_size,
                "unlabeled_batch_size": self.unlabeled_batch_size or self.batch_size,
                "learning_rate": self.learning_rate,
                "weight_decay": self.weight_decay,
                "n_labelled": len(problem.x),
                "n_unlabelled": problem.n_unlabeled,
                "verdict": self.verdict_,
            },
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities `[n, C]`: the mean over members."""
        rows = self._rows(X)
        return self.ensemble_.predict_proba(rows)

    def predict_members(self, X: Any) -> np.ndarray:
        """Each member's class probabilities `[K, n, C]`."""
        rows = self._rows(X)
        return self.ensemble_.predict_members(rows)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows; those marked by `unlabeled_label` are left out."""
        if self.unlabeled_label is not None:
            labelled = np.flatnonzero(np.asarray(y) != self.unlabeled_label)
            X, y = _safe_indexing(X, labelled), np.asarray(y)[labelled]
            sample_weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return super().score(X, y, sample_weight)

    def save(self, folder: str | Path) -> None:
        """Writes the trained ensemble into a new folder; `nu.Ensemble.load` reads it."""
        check_is_fitted(self)
        self.ensemble_.save(folder)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, allow_nd=True, ensure_all_finite=False, dtype="numeric")
        return check_rows(X, "X", self.ensemble_.row_shape)

    def _problem(self, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any) -> Problem:
        unlabeled_rows = X_unlabeled.rows if isinstance(X_unlabeled, Unlabeled) else X_unlabeled
        _check_same_columns(X, unlabeled_rows)
        if y is None:
            raise InputError("This classifier requires y to be passed, but the target y is None.")
        X, y = validate_data(self, X, y, allow_nd=True, ensure_all_finite=False, dtype="numeric")
        y = column_or_1d(y, warn=True)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        U = None if unlabeled_rows is None else np.asarray(unlabeled_rows)
        row_numbers = np.arange(len(X))
        if self.unlabeled_label is not None:
            inside = y == self.unlabeled_label
            if not isinstance(inside, np.ndarray):
                inside = np.zeros(len(y), bool)
            U = X[inside] if U is None else np.concatenate([U, X[inside]])
            row_numbers = np.flatnonzero(~inside)
            X, y = X[row_numbers], y[row_numbers]
            sample_weight = None if sample_weight is None else sample_weight[row_numbers]
            if len(X) == 0:
                raise InputError(f"Every row is marked unlabelled (y == {self.unlabeled_label!r}); label some of them.")
        check_classification_targets(y)
        if self.class_weight is not None:
            weight = compute_sample_weight(self.class_weight, y)
            sample_weight = weight if sample_weight is None else weight * sample_weight
        standardize = self.standardize
        if isinstance(standardize, str):
            if standardize != "auto":
                raise InputError(f"standardize must be True, False or 'auto', not {standardize!r}.")
            standardize = X.ndim == 2 and X.dtype != np.uint8
        return prepare(X, y, U, sample_weight, standardize=bool(standardize), row_numbers=row_numbers)

    def _settings(self) -> Settings:
        return Settings(
            batch_size=self.batch_size,
            unlabeled_batch_size=self.unlabeled_batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augment=as_augmentation(self.augment),
            plan=self.plan,
        )

    def _run_folder(self, seed: int) -> RunFolder | None:
        if self.run_folder is None:
            return None
        where = ("run_folder", "resume", "checkpoint_seconds", "verbose")
        asked = {name: value for name, value in self.get_params(deep=False).items() if name not in where}
        plain = {name: v if isinstance(v, str | int | float | None) else lasting_repr(v) for name, v in asked.items()}
        return RunFolder(self.run_folder, {**plain, "seed": seed}, self.resume, self.checkpoint_seconds)

    def _folds(self, problem: Problem, seed: int) -> list[Fold]:
        cv = 5 if self.cv is None else self.cv
        if isinstance(cv, int | np.integer):
            n_folds = check_whole(cv, "cv", least=2)
            n_repeats = 2 if len(problem.codes) < FEW_LABELS else 1
            return tuning.stratified_folds(problem.codes, n_folds, n_repeats, seed)
        if hasattr(cv, "split"):
            return [Fold(*split) for split in cv.split(problem.codes, problem.codes)]
        # Given splits number the rows of X; rows without label or weight are not among ours.
        position = {row: number for number, row in enumerate(problem.row_numbers.tolist())}

        def ours(rows: Any) -> np.ndarray:
            return np.array([position[row] for row in np.asarray(rows).tolist() if row in position], int)

        folds = [Fold(ours(train), ours(held_out)) for train, held_out in cv]
        if not folds:
            raise InputError("cv yields no split; give a number of folds, a splitter or an iterable of splits.")
        if not all(len(part) for fold in folds for part in fold):
            raise InputError(
                "A split of cv has no labelled row to train on or none to hold out; give both parts some."
            )
        return folds

    def _describe(self, method: Method, result: SearchResult | None) -> None:
        """What was chosen and on what evidence."""
        self.search_ = result
        self.cv_results_ = None if result is None else tuning.as_table(result)
        self.temperature_ = math.nan if result is None else tuning.temperature_of(result.out_of_fold, result.chosen[0])
        self.verdict_ = (
            f"{method.name}, {self.n_steps_} steps as given: nothing was chosen, so nothing was compared."
            if result is None
            else f"{method.name}, {self.n_steps_} steps: out-of-fold NLL {result.nll[result.chosen]:.3f}; the "
            f"out-of-fold temperature is {self.temperature_:.2f}."
        )


class NuEnsembleClassifier(EnsembleClassifier):
    """A nu-ensemble that chooses beta and the length of training by itself.

    With `beta="auto"` every beta is tried together with the training length, out of fold; the smallest beta within
    `tolerance` paired standard errors of the best is taken, and the ensemble is trained anew on all labels. beta = 0
    is a standard ensemble: `verdict_` says so when nothing did better. With a number, beta is taken as given and the
    training lasts `max_iter` passes, unless `early_stopping`.

    Args:
      n_members: how many networks (K).
      beta: "auto", or the weight of the unlabelled loss.
      model: a built-in network's name or a `nu.Model`.
      labels: how unlabelled points get their labels, see `nu.methods.Nu`.
      betas: what "auto" tries; the grid goes on by itself when its best value sits on the edge.
      tolerance: see above; larger is more cautious.

    All other arguments and attributes are those of `EnsembleClassifier`; `beta_` is the beta that was used.
    """

    def __init__(
        self,
        n_members: int = 10,
        beta: float | str = "auto",
        model: str | Model = "mlp",
        *,
        labels: LabelScheme = "without_replacement",
        betas: Sequence[float] = SearchSettings().betas,
        tolerance: float = 0.5,
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
        temperature: bool = False,
        unlabeled_label: Any = None,
        plan: str = "auto",
        random_state: Any = None,
        run_folder: str | Path | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            "nu",
            n_members,
            model,
            model_options=model_options,
            early_stopping=early_stopping,
            max_iter=max_iter,
            batch_size=batch_size,
            unlabeled_batch_size=unlabeled_batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            standardize=standardize,
            augment=augment,
            cv=cv,
            class_weight=class_weight,
            temperature=temperature,
            unlabeled_label=unlabeled_label,
            plan=plan,
            random_state=random_state,
            run_folder=run_folder,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            verbose=verbose,
        )
        self.beta = beta
        self.labels: LabelScheme = labels
        self.betas = betas
        self.tolerance = tolerance

    def _method(self) -> Method:
        if self.beta == "auto":
            return Nu(labels=self.labels)
        return Nu(
            beta=check_positive(self.beta, "beta (a number, or 'auto')", zero_allowed=True),
            labels=self.labels,
        )

    def _search_settings(self, method: Method) -> SearchSettings | None:
        if self.beta != "auto":
            return super()._search_settings(method)
        betas = tuple(check_positive(beta, "each of betas", zero_allowed=True) for beta in self.betas)
        if not method.uses_unlabeled:
            # Without unlabelled data every beta is the standard ensemble: only the length is left to choose.
            return SearchSettings(betas=(0.0,), tolerance=self.tolerance, extend=False)
        return SearchSettings(betas=(0.0, *betas), tolerance=self.tolerance)

    def _candidate(self, method: Method, beta: float) -> Method:
        return Nu(beta=beta, labels=self.labels) if self.beta == "auto" and method.uses_unlabeled else method

    def _describe(self, method: Method, result: SearchResult | None) -> None:
        super()._describe(method, result)
        self.beta_ = method.beta if isinstance(method, Nu) else 0.0
        if result is not None and self.beta == "auto" and len(result.betas) > 1:
            self.verdict_ = tuning.verdict(result)


def _check_same_columns(X: Any, U: Any) -> None:
    """Data frames must agree in their columns: numpy would drop the names and take any order."""
    names, unlabeled_names = (getattr(each, "columns", None) for each in (X, U))
    if names is None or unlabeled_names is None or list(names) == list(unlabeled_names):
        return
    strange = sorted({str(n) for n in unlabeled_names} ^ {str(n) for n in names})
    detail = f"these stand in one only: {', '.join(strange[:5])}" if strange else "they stand in another order"
    raise InputError(f"X_unlabeled has other columns than X ({detail}); give it the same columns in the same order.")

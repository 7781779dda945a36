"""The classifier that most users want: a nu-ensemble that chooses beta and the length of training by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from nu_ensembles import tuning
from nu_ensembles.calibration import Calibrator
from nu_ensembles.checks import check_positive
from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.estimator.any_method import EnsembleClassifier
from nu_ensembles.methods import AnyMethod, LabelScheme, Nu
from nu_ensembles.models import Model
from nu_ensembles.tables import ColumnTypes
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning import SearchSettings


class NuEnsembleClassifier(EnsembleClassifier):
    """A nu-ensemble that chooses beta and the length of training by itself.

    With `beta="auto"` betas are tried together with the training length, out of fold: 0, then .01 and .001, and all
    others where one of these is ahead. The smallest beta within `tolerance` paired standard errors of the best is taken
    if its gain over beta = 0 is clear, and the ensemble is trained anew on all labels. beta = 0 is a
    standard ensemble: `verdict_` says so when nothing is clearly better.
    Where the unlabelled rows come from elsewhere, what is best on held-out labelled rows need not be best there, and
    another rule chooses (`deployment`), of beta in units of the labelled loss. With
    a number, beta is taken as given and the training lasts `max_iter` passes, unless `early_stopping`.

    Args:
      n_members: how many networks (K).
      beta: "auto", or the weight of the unlabelled loss.
      model: a built-in network's name or a `nu.Model`.
      labels: how unlabelled points get their labels, see `nu.methods.Nu`.
      betas: what "auto" may try; the grid goes on by itself when its best value sits on the edge.
      tolerance: see above; larger is more cautious.
      deployment: where `X_unlabeled` differs from `X` (see `shift_`), let "auto" choose by what these rows tell
        instead; False takes them for rows from where the labelled ones come from.
      priors: where classes have other shares among the unlabelled rows, and nothing else differs, move the
        probabilities there (`priors_`).
      model_options: what a built-in network takes, as a dict.
      early_stopping: with a number for beta, choose the number of steps by out-of-fold NLL; "auto" always does.
      max_iter: passes over the labelled rows, or the most that may be chosen.
      batch_size: labelled rows a member sees in a step.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate: of AdamW, constant.
      weight_decay: of AdamW, decoupled from the gradient.
      standardize: scale features to mean 0 and variance 1 over labelled and unlabelled rows; "auto" does so for tables.
      augment: "flip_crop" or a callable, for labelled images.
      cv: folds for what is chosen: a number, a scikit-learn splitter or an iterable of splits.
      class_weight: None, "balanced" or a dict.
      column_types: what columns of a table are, where their values do not tell; see `nu.fit`.
      calibration: how predicted probabilities are calibrated, out of fold: "auto" for what clearly gains, a name (see
        `nu.calibration.CALIBRATORS`), a `nu.calibration.Calibrator`, or None.
      temperature: True means calibration="temperature", the older way to say it.
      companion: "forest" pools the networks with a tempered random forest (`nu.TemperedForest`), with a weight that is
        learnt out of fold; for tables. None leaves them alone.
      unlabeled_label: rows of X whose label equals it are the unlabelled ones; None means there are none.
      plan: how members run: "vectorised", "sequential", "sharded", or "auto" for the fastest here.
      deterministic: train to the same bits on a GPU, too, where it takes longer; a CPU does so anyway.
      random_state: seed.
      run_folder: where the fit keeps its checkpoints and, at its end, the model (in `model`).
      resume: go on from what `run_folder` holds of a killed fit with the same data, arguments and seed.
      checkpoint_seconds: how long at most between two checkpoints.
      verbose: 1 shows progress on a terminal.

    Attributes:
      beta_: the beta that was used; all others are those of `EnsembleClassifier`.
    """

    def __init__(
        self,
        n_members: int = 10,
        beta: float | str = "auto",
        model: str | Model = "mlp",
        *,
        labels: LabelScheme = "without_replacement",
        betas: Sequence[float] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        tolerance: float = 1.0,
        deployment: bool = True,
        priors: bool = True,
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
            column_types=column_types,
            calibration=calibration,
            temperature=temperature,
            companion=companion,
            unlabeled_label=unlabeled_label,
            plan=plan,
            deterministic=deterministic,
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
        self.deployment = deployment
        self.priors = priors

    def _method_and_search(self) -> tuple[AnyMethod, SearchSettings | None]:
        if self.beta == "auto":
            return Nu(labels=self.labels), SearchSettings(betas=(0.0, *self.betas), tolerance=self.tolerance)
        beta = check_positive(self.beta, "beta (a number, or 'auto')", zero_allowed=True)
        return Nu(beta, self.labels), self._length_search()

    @property
    def _with_priors(self) -> bool:
        return self.priors

    def _searched(
        self, job: TrainingJob, folds: list[tuning.Fold], how: SearchSettings, run: RunFolder | None
    ) -> tuning.SearchResult:
        if self.beta == "auto" and self.deployment and tuning.says_nothing_of_the_deployment(job, self.shift_):
            assert self.shift_ is not None, "where rows differ a test has said so"
            return tuning.search_under_shift(job, folds, how, self.shift_, run=run, verbose=self.verbose)
        return super()._searched(job, folds, how, run)

    @property
    def beta_(self) -> float:
        """The beta that was used; 0 for the standard ensemble."""
        check_is_fitted(self)
        return float(self.ensemble_.training["hyper_parameters"].get("beta", 0.0))

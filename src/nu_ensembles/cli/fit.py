"""`nu-ensembles fit`: from files to a saved ensemble."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nu_ensembles.cli.method_options import typed_options
from nu_ensembles.cli.options import (
    OUTPUT,
    DataOptions,
    Json,
    MethodOptions,
    NetworkOptions,
    Quiet,
    RunOptions,
    TrainingOptions,
)
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError

if TYPE_CHECKING:
    from nu_ensembles.estimator import EnsembleClassifier

_DATA, _METHOD, _NETWORK = DataOptions(), MethodOptions(), NetworkOptions()
_TRAINING, _RUN = TrainingOptions(), RunOptions()
# Rows that are named for labelling, of the first so many.
ROWS_TO_LABEL, MOST_RANKED = 20, 5000
_SCALING: dict[str, bool | str] = {"auto": "auto", "always": True, "never": False}


def fit(
    train: Path,
    *,
    data: DataOptions = _DATA,
    method: MethodOptions = _METHOD,
    network: NetworkOptions = _NETWORK,
    training: TrainingOptions = _TRAINING,
    run: RunOptions = _RUN,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    config: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train an ensemble on labelled and unlabelled rows, and save it.

    With `--beta auto` (the default) every beta is tried together with the length of training on held-out rows. The
    smallest beta that is as good as the best is taken; 0, a standard ensemble, if none helps. Where the unlabelled rows
    come from elsewhere, beta is chosen by what they tell without labels. The verdict says which, and what to expect.

    ```
    nu-ensembles fit train.csv --target species
    nu-ensembles fit train.csv --unlabeled more.csv --target species --out model
    nu-ensembles fit train.npz --unlabeled more.npz --hidden 128,64 --out model
    nu-ensembles fit photos/ --unlabeled more_photos/ --model lenet --out model
    nu-ensembles fit train.npz --method standard --early-stopping --out model
    nu-ensembles fit train.npz --method swag --method-options.last 0.3 --out model
    nu-ensembles fit train.csv --config fit.yaml --run-folder run
    nu-ensembles fit train.csv --config fit.yaml --run-folder run --resume
    ```

    Args:
      train: Labelled rows: a .csv (.tsv, .csv.gz), .npz or .parquet file, - for a csv file from standard input, or a
        folder of images with a sub-folder for each class. Rows of a table without a label are unlabelled rows.
      out: New folder for the model; by default named after the training file, as in train-model.
      config: YAML file of options under the names shown here; the command line overrides it.
      json: Print one JSON object.
      quiet: Show no progress.
    """
    from nu_ensembles.storage import claimed

    out = _destination(out, run, train)
    with claimed(out):
        classifier, label_next = _fitted(train, data, method, network, training, run, out, verbose=0 if quiet else 1)
    result = _summary(classifier, out, label_next)
    show(result, _in_words(result), json)


def _fitted(
    train: Path,
    data: DataOptions,
    method: MethodOptions,
    network: NetworkOptions,
    training: TrainingOptions,
    run: RunOptions,
    out: Path,
    verbose: int,
) -> tuple[EnsembleClassifier, list[int]]:
    """Reads the files, trains, and saves the model; also, which unlabelled rows to label next."""
    from nu_ensembles.cli.data import read_training_files

    files = read_training_files(train, data, method.validation)
    classifier = build_classifier(method, network, training, run, verbose)
    classifier.set_params(column_types=files.description.column_types)
    classifier._further_notes = {"data": dataclasses.asdict(files.description)}
    if run.run_folder is not None and out != run.run_folder / "model":
        classifier._also_in = [out]
    classifier.fit(files.X, files.y, files.U, validation=files.validation)
    if run.run_folder is None:
        _save(classifier, out)
    return classifier, _rows_to_label(classifier, files.U)


def _save(classifier: EnsembleClassifier, out: Path) -> None:
    """Saves the model; where that fails, in a folder for temporary files, because the training took long."""
    try:
        classifier.save(out)
    except InputError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="nu-ensembles-")) / "model"
        try:
            classifier.save(elsewhere)
        except InputError:
            raise error from None
        raise InputError(f"{error} The model is in {elsewhere} for now; move it.") from error


def build_classifier(
    method: MethodOptions,
    network: NetworkOptions,
    training: TrainingOptions,
    run: RunOptions,
    verbose: int,
) -> EnsembleClassifier:
    """The estimator that the options describe."""
    from nu_ensembles.estimator import EnsembleClassifier, NuEnsembleClassifier

    options: dict[str, Any] = {
        "n_members": method.members,
        "early_stopping": method.early_stopping,
        "calibration": method.calibration,
        "temperature": method.temperature,
        "companion": method.companion,
        "cv": method.cv,
        "model": network.model,
        "model_options": network.model_options(),
        "standardize": _SCALING[network.standardize],
        "augment": network.augment,
        **{name: value for name, value in vars(training).items() if name != "seed"},
        "random_state": training.seed,
        **vars(run),
        "verbose": verbose,
    }
    if method.method == "nu":
        if method.method_options:
            raise InputError("The method 'nu' has options of its own (--beta, --labels); leave --method-options out.")
        own = {name: getattr(method, name) for name in ("beta", "betas", "labels", "tolerance")}
        return NuEnsembleClassifier(**own, deployment=not method.ignore_shift, **options)
    if method.beta != "auto":
        raise InputError(
            f"--beta belongs to --method nu; leave it out for {method.method!r} (a beta of its own goes by "
            "--method-options.beta)."
        )
    method_options = typed_options(method.method, method.method_options) or None
    return EnsembleClassifier(method.method, method_options=method_options, **options)


def _destination(out: Path | None, run: RunOptions, train: Path) -> Path:
    """Where the model goes; refused now, before hours of work, if it could not be written there."""
    from nu_ensembles.lifecycle.folder import UNFINISHED
    from nu_ensembles.storage import refuse_existing

    if run.run_folder is None and run.resume:
        raise InputError("--resume needs --run-folder, the folder of the run to go on with.")
    if out is None:
        name = train.name.split(".")[0].strip("-")
        out = Path(f"{name}-model" if name else "model") if run.run_folder is None else run.run_folder / "model"
    place = out
    # A run that was killed after its model was saved has nothing left to do but to clean up.
    saved = run.resume and run.run_folder is not None and (run.run_folder / UNFINISHED).exists()
    if not (saved and (place / "manifest.json").exists()):
        refuse_existing(place)
    parent = next(folder for folder in Path(os.path.abspath(place)).parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{place} cannot be written, because {parent} is no writable folder; choose another place.")
    return place


def _rows_to_label(classifier: EnsembleClassifier, unlabeled: Any) -> list[int]:
    """Which rows of the unlabelled file to label first, counted from 1, where these differ from the labelled ones."""
    from nu_ensembles.metrics import rank_for_labelling

    if unlabeled is None or classifier.shift_ is None or not classifier.shift_.differs or classifier.n_members < 2:
        return []
    members = classifier.predict_members(unlabeled[:MOST_RANKED])
    return [int(row) + 1 for row in rank_for_labelling(members, n_rows=min(ROWS_TO_LABEL, members.shape[1]))]


def _summary(classifier: EnsembleClassifier, out: Path, label_next: list[int]) -> dict[str, Any]:
    ensemble = classifier.ensemble_
    return {
        "command": "fit",
        "out": out,
        "verdict": classifier.verdict_,
        "method": ensemble.training["method"],
        "beta": getattr(classifier, "beta_", None),
        "n_steps": classifier.n_steps_,
        "n_passes": classifier.n_iter_,
        "n_members": ensemble.n_members,
        "model": None if ensemble.model.spec is None else ensemble.model.spec.to_dict(),
        "n_labelled": ensemble.training["n_labelled"],
        "n_unlabelled": ensemble.training["n_unlabelled"],
        "classes": ensemble.classes,
        "temperature": classifier.temperature_,
        "temperature_applied": ensemble.temperature != 1,
        "calibrator": None if classifier.calibrator_ is None else classifier.calibrator_.name,
        "companion": None if classifier.companion_ is None else classifier.companion_.numbers(),
        "seed": classifier.random_state,
        "search": classifier.cv_results_,
        "expected": None if classifier.expected_ is None else classifier.expected_.to_dict(),
        "label_next": label_next,
    }


def _in_words(result: dict[str, Any]) -> str:
    beta = "" if result["beta"] is None else f", beta {result['beta']:g}"
    rows = result["label_next"]
    to_label = (
        [f"To check it, label these rows of the unlabelled ones first: {', '.join(map(str, rows))}."] if rows else []
    )
    return "\n".join(
        [
            result["verdict"],
            *to_label,
            f"{result['n_members']} members on {result['n_labelled']} labelled and {result['n_unlabelled']} unlabelled "
            f"rows, {len(result['classes'])} classes{beta}, {result['n_steps']} steps ({result['n_passes']} passes).",
            f"Saved in {result['out']}; next: nu-ensembles predict {result['out']} DATA",
        ]
    )

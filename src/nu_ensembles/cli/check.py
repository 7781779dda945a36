"""`nu-ensembles check`: what is there to mend? Two minutes before hours of training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import TRAINING, DataOptions, Json, Quiet
from nu_ensembles.cli.output import show, table

if TYPE_CHECKING:
    from nu_ensembles.tuning.advice import OutOfFoldFit
    from nu_ensembles.tuning.preflight import Preflight

_DATA = DataOptions()


def check(
    train: Path,
    *,
    data: DataOptions = _DATA,
    max_iter: Annotated[int, Parameter(group=TRAINING)] = 500,
    learning_rate: Annotated[float, Parameter(group=TRAINING)] = 1e-3,
    batch_size: Annotated[int, Parameter(group=TRAINING)] = 32,
    seed: Annotated[int, Parameter(group=TRAINING)] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what there is for a nu-ensemble to mend on this data, in about two minutes.

    Looks at the number of labels, at the overconfidence of a small standard ensemble on held-out rows (where it
    would be stopped, and at the end of its training), and at whether labelled and unlabelled rows can be told apart.
    Nothing is written.

    ```
    nu-ensembles check train.csv --unlabeled more.csv --target species
    nu-ensembles check photos/ --unlabeled more_photos/ --image-size 32x32
    ```

    Args:
      train: Labelled rows: a .csv, .npz or .parquet file, or a folder of images with a sub-folder for each class.
      max_iter: Passes over the labelled rows in the training that is meant.
      learning_rate: Of AdamW, in the training that is meant.
      batch_size: Labelled rows that a member sees in a step.
      seed: Of the folds and the networks.
      json: Print one JSON object.
      quiet: Show no progress.
    """
    from nu_ensembles.cli.data import read_training_files

    files = read_training_files(train, data)
    from nu_ensembles.tuning.preflight import preflight

    found = preflight(
        files.X,
        files.y,
        files.U,
        feature_names=files.description.feature_names,
        column_types=files.description.column_types,
        max_iter=max_iter,
        learning_rate=learning_rate,
        batch_size=batch_size,
        seed=seed,
        verbose=0 if quiet else 1,
    )
    show({"command": "check", **found.to_dict()}, _in_words(found), json)


def _in_words(found: Preflight) -> str:
    evidence = found.evidence
    counts = evidence.labels_per_class.values()
    rows = [
        ["labels", f"{evidence.n_labelled}; {len(counts)} classes of {min(counts)} to {max(counts)}"],
        ["unlabelled rows", f"{evidence.n_unlabelled}; {evidence.n_duplicates} labelled rows stand among them"],
        ["standard, at its best", _fit_in_words(evidence.early_stopped)],
        ["standard, last step", _fit_in_words(evidence.last_step)],
    ]
    if evidence.shift is not None:
        shift = evidence.shift
        interval = f"{shift.low:.2f} … {shift.high:.2f}"
        rows.append(["labelled or not?", f"told apart with AUROC {shift.auroc:.2f} ({interval}); 0.5 is chance"])
    return "\n".join([found.recommendation, *found.notes, "", table(["held-out figures", ""], rows)])


def _fit_in_words(fit: OutOfFoldFit) -> str:
    return f"{fit.n_steps} steps: accuracy {fit.accuracy}, NLL {fit.nll}, overconfidence {fit.overconfidence}"

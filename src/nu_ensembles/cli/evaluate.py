"""`nu-ensembles evaluate`: all metrics of a saved ensemble on labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from nu_ensembles.cli.options import DATA, FLAG, OUTPUT, Columns, Json
from nu_ensembles.cli.output import number, show, table

LEVEL = 0.95

# Which way is better, and what it says; "·" where neither way is better as such.
METRICS: dict[str, tuple[str, str]] = {
    "accuracy": ("higher", "share of rows whose most probable class is right"),
    "nll": ("lower", "-log probability of the true class: the whole of a probability's quality"),
    "brier": ("lower", "squared distance between probabilities and the truth"),
    "ece": ("lower", "gap between confidence and accuracy, 15 bins"),
    "ece_debiased": ("lower", "the same less what chance alone would show"),
    "ece_classwise": ("lower", "that gap for every class's probability, mean over classes"),
    "ece_top_label": ("lower", "that gap within every predicted class"),
    "tace": ("lower", "that gap in bins of equal mass, probabilities above .001, all classes (the paper's)"),
    "tace_nixon": ("lower", "the same as its inventors compute it"),
    "overconfidence": ("near 0", "mean confidence - accuracy; above 0 promises too much"),
    "brier_reliability": ("lower", "calibration part of the Brier score, by predicted class (the paper's)"),
    "brier_resolution": ("higher", "how much the predictions tell the classes apart, by predicted class"),
    "brier_uncertainty": ("·", "Brier score of always predicting the class frequencies"),
    "brier_exact_reliability": ("lower", "calibration part of an exact decomposition of the Brier score"),
    "brier_exact_resolution": ("higher", "its discrimination part"),
    "error_auroc": ("higher", "chance that a right prediction is more confident than a wrong one"),
    "aurc": ("lower", "mean error when the least confident rows are left out, one after another"),
    "entropy": ("·", "spread of the predicted probabilities, nats"),
    "epistemic": ("·", "part of the entropy that comes from members disagreeing, nats"),
    "mutual_information": ("·", "how much two members' predictions have in common, bits; lower is more diverse"),
    "mutual_information_corrected": ("·", "the same less what a finite sample adds"),
    "variance": ("·", "variance of the true class's probability over members (V-hat of the paper)"),
    "disagreement": ("·", "share of rows on which two members predict different classes"),
    "member_accuracy": ("higher", "accuracy of a single member, mean"),
    "member_nll": ("lower", "NLL of a single member, mean"),
    "accuracy_gain": ("higher", "what averaging the members adds to their accuracy"),
    "nll_gain": ("higher", "what averaging the members takes off their NLL"),
}
# What is shown first: is it right, are its probabilities good, do they mean what they say, does confidence tell errors?
HEADLINES = ("accuracy", "nll", "brier", "ece", "error_auroc")


def evaluate(
    model: Path,
    data: Path,
    *,
    target: Annotated[str | None, Parameter(group=DATA)] = None,
    drop: Annotated[Columns, Parameter(group=DATA)] = (),
    all: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    intervals: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    json: Json = False,
) -> None:
    """Score an ensemble on labelled rows that it has not seen: accuracy, calibration, diversity.

    Five numbers tell most of it; --all shows the rest, and --json always has them all.

    ```
    nu-ensembles evaluate model test.csv --target species
    nu-ensembles evaluate model test.csv --target species --all
    nu-ensembles evaluate model test.csv --target species --intervals
    nu-ensembles evaluate model test_photos/ --json
    ```

    Args:
      model: Folder that fit has written.
      data: Labelled rows: a .csv, .npz or .parquet file, or a folder of images with a sub-folder for each class.
      target: Column that holds the labels; by default the one that the model was trained on.
      drop: Column to leave out that the training data did not have; repeat the option for more.
      all: Show every metric.
      intervals: Add 95 % intervals by bootstrap over rows.
      json: Print one JSON object.
    """
    from nu_ensembles.cli.data import DataDescription, read_labelled, refuse_other_shape
    from nu_ensembles.ensemble import Ensemble, score

    ensemble = Ensemble.load(model)
    x, codes = read_labelled(DataDescription.of(ensemble), data, target, drop, ensemble.classes)
    if ensemble.encoding is None:
        refuse_other_shape(x, data, ensemble.row_shape)
    scores = score(ensemble, x, codes, LEVEL if intervals else None)
    result: dict[str, Any] = {
        "command": "evaluate",
        "n_rows": len(x),
        "n_members": ensemble.n_members,
        "interval_level": LEVEL if intervals else None,
        "metrics": scores,
    }
    header = f"{len(x)} rows, {ensemble.n_members} members, {len(ensemble.classes)} classes\n\n"
    names = tuple(METRICS) if all else HEADLINES
    rest = "" if all else f"\n\n--all shows the other {len(METRICS) - len(HEADLINES)} metrics."
    show(result, header + _in_words(scores, names, intervals) + rest, json)


def _in_words(scores: dict[str, float], names: Sequence[str], intervals: bool) -> str:
    header = ["metric", "value", *(["95 % interval"] if intervals else []), "better", "meaning"]
    rows = []
    for name in names:
        better, meaning = METRICS[name]
        low_high = [f"{number(scores[name + '_low'])} … {number(scores[name + '_high'])}"] if intervals else []
        rows.append([name, number(scores[name]), *low_high, better, meaning])
    return table(header, rows)

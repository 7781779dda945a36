"""Methods: every way to train that the package has, on the digits, with the same budget and seeds.

Ten members (or what the method makes of them), the same number of steps, 64 images a member a step: 64 labelled ones,
or 32 labelled and 32 unlabelled where the method uses those. Measured on every seed: all metrics on the test rows,
before and after temperature scaling fitted on the validation rows, and the time. *fixed*: one strength, 400 steps.
*selected*: strength and number of steps with the lowest validation NLL.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import check_methods, check_selectable, make_row, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.pages.figures import reliability_section
from nu_ensembles_studies.pages.names_and_cells import difference_cell, place_name
from nu_ensembles_studies.pages.tables import scores_section, temperature_section
from nu_ensembles_studies.results.intervals import BY_KEY
from nu_ensembles_studies.results.results import Results

N_TRAIN = 128
STEPS = (50, 100, 200, 400, 800, 1600)
FIXED_STEPS = 400
RATE = 1e-3
IMAGES_A_STEP = 64
# Of methods that have one: its name, what *selected* tries, and what *fixed* takes.
STRENGTHS: dict[str, tuple[str, tuple[float, ...], float]] = {
    "nu": ("beta", (1e-3, 3e-3, 1e-2), 3e-3),
    "confidence_penalty": ("beta", (1e-3, 3e-3, 1e-2), 3e-3),
    "label_smoothing": ("epsilon", (0.005, 0.02, 0.1), 0.1),
    "mixup": ("alpha", (0.02, 0.05, 0.1), 0.1),
    "agree_to_disagree": ("alpha", (1e-5, 1e-4, 1e-3), 1e-4),
    "dice": ("alpha", (0.1, 0.3, 1.0), 0.3),
    "pac2b": ("beta", (0.5, 1.0), 1.0),
    "pac2": ("beta", (0.5, 1.0), 1.0),
}
# Compared where none are named; the others, some of which need images or another library, go by `--methods`.
USUAL_METHODS = (
    "standard",
    "nu",
    "agree_to_disagree",
    "pac2",
    "pac2b",
    "dice",
    "label_smoothing",
    "mixup",
    "confidence_penalty",
    "single",
    "mc_dropout",
    "swag",
    "hyper_deep",
    "self_training",
)
FIXED, SELECTED, TIMED = "fixed", "selected", "timed"
COMPARED = ("accuracy", "nll", "ece", "brier_reliability")


def rows(options: StudyOptions) -> list[Row]:
    names = options.methods or USUAL_METHODS
    check_methods(names)
    found = []
    for place in places(options, usual_sizes=lambda _: (N_TRAIN,)):
        check_selectable(place.dataset)
        for protocol in (FIXED, SELECTED, TIMED):
            found += [_row(options, place._replace(protocol=protocol), method) for method in names]
    return found


def _row(options: StudyOptions, place: Place, method: str) -> Row:
    """A method with one strength and length, with all of them, or timed on the first seed."""
    batch, n = _batch_size(method), place.n_train
    fields: dict[str, Any] = {"batch_size": batch, "n_test": None}
    if place.protocol == TIMED:
        once = dataclasses.replace(options, seeds=1)
        return make_row(once, place, method, [Setting(RATE, _epochs(FIXED_STEPS, n, batch))], kind="cost", **fields)
    strengths, lengths = [()], (FIXED_STEPS,)
    if method in STRENGTHS:
        name, tried, fixed = STRENGTHS[method]
        strengths = [((name, value),) for value in (tried if place.protocol == SELECTED else (fixed,))]
    if place.protocol == SELECTED:
        lengths = tuple(steps for steps in STEPS if steps * batch >= n)
    settings = [Setting(RATE, _epochs(steps, n, batch), each) for each in strengths for steps in lengths]
    return make_row(options, place, method, settings, **fields)


def _epochs(steps: int, n_train: int, batch: int) -> int:
    """As many epochs as have so many steps, or nearly; what is left of a batch is no step (see `steps_in`)."""
    return max(1, round(steps / max(1, n_train // batch)))


def _batch_size(method: str) -> int:
    from nu_ensembles.methods import build

    return IMAGES_A_STEP // 2 if build(method).uses_unlabeled else IMAGES_A_STEP


def method_table(results: Results) -> Section | None:
    """Every method against the standard ensemble on the same seeds, before and after temperature scaling."""
    columns = [
        Column("Trained how", text=True),
        *(Column(f"Δ {BY_KEY[key].title}") for key in COMPARED),
        *(Column(f"Δ {BY_KEY[key].title}, with T") for key in ("nll", "ece")),
        Column("Time", "Of training, for the same number of steps, relative to the standard ensemble."),
    ]
    tables = []
    for place in results.places():
        standard = results.find("standard", place)
        rows = [row for row in results.at(place) if row is not standard]
        if standard is None or not rows or not standard.scored:
            continue
        caption = f"{place_name(place)}, protocol “{place.protocol}”: difference to the standard ensemble"
        tables.append(SortableTable(caption, columns, [_method_line(results, row, standard) for row in rows]))
    if not tables:
        return None
    text = (
        "Differences to the standard ensemble of the same protocol, seed by seed; ✓ and ✗ where the 95 % interval "
        "excludes zero (about one in twenty does so by chance where nothing differs). With T: both after "
        "temperature scaling fitted on the validation rows."
    )
    return Section("Every method against the standard ensemble", [Paragraph(text), *tables])


def _method_line(results: Results, row: Row, standard: Row) -> list[Cell]:
    parts = [(key, ("test", "test")) for key in COMPARED] + [(key, ("scaled", "scaled")) for key in ("nll", "ece")]
    cells = [difference_cell(BY_KEY[key], results.difference(row, standard, key, both)) for key, both in parts]
    seconds = []
    for each in (row, standard):
        timed = results.find(each.method, row.place._replace(protocol=TIMED))
        seconds.append(math.nan if timed is None else results.mean(timed, "milliseconds_a_step", "cost").mean)
    times = seconds[0] / seconds[1]
    return [Cell(row.title), *cells, Cell("–" if math.isnan(times) else f"{times:.1f} ×", times)]


METHODS_STUDY = Study(
    name="methods",
    title="Which ensemble should I use?",
    question="All ways to train that the package has, on handwritten digits with the same budget: which is best?",
    rows=rows,
    defaults={"datasets": ("digits",), "models": ("mlp",), "rule": "nll"},
    sections=(method_table, scores_section, temperature_section, reliability_section),
    notes=(
        "Hyper-deep ensembles and self-training train more networks than they keep; single networks, MC dropout and "
        "SWAG train one. The time is relative to the standard ensemble, for the same steps on this machine.",
        "Hyper-deep ensembles choose their members on the validation rows, to which temperatures are fitted, too.",
    ),
)

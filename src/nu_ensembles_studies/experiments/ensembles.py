"""Every ensemble that the package has, on digits and three tables, where nothing differs and where the deployment does.

A cell is one method with its defaults on one place and seed. Labels are 100 rows of a source; unlabelled and test rows
come from the deployment, which is the same distribution under ".same" (and where a name says nothing) and another
elsewhere; other source rows are scored, too. *equal-steps*: as many steps for each network, 64 images a step, half of
them unlabelled where the method uses those. *equal-time*: as many steps as fit into the processor time of the standard
ensemble's training.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.options import BUDGETS, StudyOptions
from nu_ensembles_studies.declare.protocols import check_methods, make_row
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.pages.names_and_cells import difference_cell, score_cell
from nu_ensembles_studies.results.intervals import BY_KEY, Interval, interval_of
from nu_ensembles_studies.results.results import Results

N_LABELS, STEPS, MEMBERS, IMAGES_A_STEP, RATE = 100, 400, 5, 64, 1e-3
STEPS_EQUAL, TIME_EQUAL = "equal steps", "equal time"
KINDS = {STEPS_EQUAL: "of_methods", TIME_EQUAL: "of_methods_in_time"}
DIGITS = ("digits.same", "digits.fog-3", "digits.contrast-3")
TABLES = ("wine", "breast_cancer", "vehicle")
PLACES = (*DIGITS, *(f"{table}.{how}" for how in ("same", "cluster") for table in TABLES))
# Two networks on images, one on tables.
NETWORKS = {"digits": ("mlp", "lenet")}
ALL = (
    *("standard", "nu", "single", "agree_to_disagree", "pac2", "pac2b", "dice", "label_smoothing", "mixup"),
    *("confidence_penalty", "mc_dropout", "swag", "multi_swag", "hyper_deep", "self_training", "repulsive"),
    *("feature_flow", "laplace", "cyclical_sgmcmc", "cold_posterior", "transformations", "multi_symmetry", "packed"),
    *("batch_ensemble", "sngp", "hmc"),
)
# Of the methods' options those that are not defaults: random labels as in the study of methods, and chains short enough
# for five seeds of every place.
OPTIONS: dict[str, tuple[tuple[str, Any], ...]] = {
    "nu": (("beta", 3e-3),),
    "hmc": (("burn_in", 20), ("n_chains", 2), ("n_samples", 60)),
}
# What has not a place everywhere: it needs images, a network with dropout, or a length and a small network.
IMAGES_ONLY, WITH_DROPOUT, WITHOUT_LENGTH = ("transformations", "multi_symmetry"), "mc_dropout", "hmc"
# What is told of chains: title, what it is, where it stands among the scores, digits.
MIXING = (
    ("Acceptance", "Share of proposals", "chains", "acceptance", 2),
    ("R̂ of predictions", "The median over probabilities on training rows", "chains", "predictions_r_hat_median", 2),
    ("largest", "The largest of them", "chains", "predictions_r_hat_largest", 2),
    ("Effective samples", "The median, of 120", "chains", "predictions_ess_median", 0),
    ("smallest", "The smallest of them", "chains", "predictions_ess_smallest", 0),
    ("R̂ of weights, largest", "Over some of the weights", "chains", "weights_r_hat_largest", 2),
    ("Processor seconds", "Of the sampling, compilation included", "time", "seconds", 0),
)
COMPARED = ("nll", "accuracy", "ece", "brier_reliability")


def rows(options: StudyOptions) -> list[Row]:
    names = options.methods or ALL
    check_methods(names)
    found = []
    for dataset in options.datasets:
        usual = NETWORKS.get(dataset.split(".")[0], ("mlp",))
        for model in options.models or usual:
            for n in options.n or (N_LABELS,):
                for budget in options.protocols:
                    place = Place(dataset, n, model, budget.replace("-", " "))
                    found += [_row(options, place, name) for name in names if has_place(name, place)]
    return found


def has_place(method: str, place: Place) -> bool:
    """Whether a method can be asked for there."""
    of_images = place.dataset.split(".")[0] == "digits"
    if (method in IMAGES_ONLY and not of_images) or (method == WITH_DROPOUT and place.model == "lenet"):
        return False
    return method != WITHOUT_LENGTH or (place.protocol == STEPS_EQUAL and place.model != "lenet")


def _row(options: StudyOptions, place: Place, method: str) -> Row:
    from nu_ensembles.methods import build

    chosen = OPTIONS.get(method, ())
    half = build(method, **dict(chosen)).uses_unlabeled
    fields: dict[str, Any] = {"n_validation": 0, "n_unlabeled": 0, "augment": False, "split": "random"}
    fields |= {"kind": KINDS[place.protocol], "batch_size": IMAGES_A_STEP // 2 if half else IMAGES_A_STEP}
    return make_row(options, place, method, [Setting(RATE, STEPS, chosen)], **fields)


def by_place_section(results: Results) -> Section | None:
    """Every method against the standard ensemble, place by place."""
    columns = [
        Column("Trained how", text=True),
        *(Column(f"Δ {BY_KEY[key].title}", "On test rows of the deployment.") for key in COMPARED),
        Column("Δ NLL on the source", "On source rows that nobody trained on."),
        Column("Steps"),
        Column("Processor seconds", "Of the training, compilation included."),
    ]
    tables = []
    for place in results.places():
        standard = results.find("standard", place)
        others = [row for row in results.at(place) if row is not standard and any(results.chosen(row))]
        if standard is None or not others or not any(results.chosen(standard)):
            continue
        lines = []
        for row in others:
            cells = [difference_cell(BY_KEY[key], results.difference(row, standard, key)) for key in COMPARED]
            on_source = results.difference(row, standard, "nll", ("source", "source"))
            cells.append(difference_cell(BY_KEY["nll"], on_source))
            for key, digits in (("steps", 0), ("seconds", 1)):
                value = results.mean(row, key, "time")
                cells.append(score_cell(value, Interval(value.mean, float("nan")).text(digits)))
            lines.append([Cell(row.title), *cells])
        caption = f"{place.dataset}, {place.model}, {place.n_train} labels, {place.protocol}"
        tables.append(SortableTable(caption, columns, lines))
    text = (
        "Differences to the standard ensemble of the same seeds; ✓ and ✗ where the 95 % interval over seeds excludes "
        "zero, as about one in twenty does by chance where nothing differs."
    )
    return Section("Place by place", [Paragraph(text), *tables]) if tables else None


def overall_section(results: Results) -> Section | None:
    """Over all places: how the NLL changes, and where an interval separates a method from the standard ensemble."""
    columns = [
        Column("Trained how", text=True),
        Column("Budget", text=True),
        Column("Steps", "Of the training, in those of the standard ensemble; the mean over places."),
        Column("Δ NLL where nothing differs", "Mean over places, with its 95 % interval where there are several."),
        Column("Δ NLL under shift", "The same over the places whose deployment differs."),
        Column("Better", "Places on which the interval of the NLL's difference lies below zero."),
        Column("Worse", "Above zero."),
        Column("Places", "All of whose seeds have been trained."),
    ]
    lines = []
    for method in sorted({row.method for row in results.rows} - {"standard"}, key=ALL.index):
        for protocol in KINDS:
            found = of_method(results, method, protocol)
            if not found:
                continue
            means = [[each.mean for same, each in found if same is kind] for kind in (True, False)]
            cells = [difference_cell(BY_KEY["nll"], interval_of(np.array(each, np.float64))) for each in means]
            separated = [difference for _, difference in found if difference.excludes_zero]
            counts = [sum(each.mean < 0 for each in separated), sum(each.mean > 0 for each in separated), len(found)]
            title = next(row.title for row in results.rows if row.method == method)
            times = steps_of(results, method, protocol)
            steps = "–" if method == WITHOUT_LENGTH or np.isnan(times) else f"{times:.2g}"
            numbers = (Cell(str(n), n) for n in counts)
            lines.append([Cell(title), Cell(protocol), Cell(steps), *cells, *numbers])
    if not lines:
        return None
    text = (
        "Differences of the NLL to the standard ensemble's, each place once, whatever its seeds. A method is called "
        "better or worse nowhere but where an interval says so; with many methods and places some "
        "do so by chance, about one in twenty."
    )
    return Section("All places together", [Paragraph(text), SortableTable("Every method", columns, lines)])


def steps_of(results: Results, method: str, protocol: str) -> float:
    """Steps of a method's training, in those of the standard ensemble's; the mean over seeds and places, or nan."""
    rows = [row for row in results.rows if row.method == method and row.place.protocol == protocol]
    steps = np.concatenate([results.values(row, "steps", "time") for row in rows])
    return float(np.mean(steps[~np.isnan(steps)])) / STEPS if np.isfinite(steps).any() else np.nan


def steps_section(results: Results) -> Section | None:
    """What a step of every method takes, in those of the standard ensemble's."""
    others = [row for row in results.rows if row.place.protocol == TIME_EQUAL and row.method != "standard"]
    timed = [row for row in others if any(results.chosen(row))]
    sources = list(dict.fromkeys((row.dataset.split(".")[0], row.model) for row in timed))
    lines = []
    for method in sorted({row.method for row in timed}, key=ALL.index):
        cells = []
        for source in sources:
            here = [row for row in timed if row.method == method and (row.dataset.split(".")[0], row.model) == source]
            values = [results.values(row, "times_a_standard_step", "time") for row in here]
            known = np.concatenate(values) if values else np.empty(0)
            known = known[~np.isnan(known)]
            # Processes that share a data set's methods timed it more than once.
            cells.append(Cell(f"{np.median(known):.2g}", float(np.median(known))) if len(known) else Cell("–", "–"))
        lines.append([Cell(next(row.title for row in timed if row.method == method)), *cells])
    columns = [Column("Trained how", text=True), *(Column(f"{dataset}, {model}") for dataset, model in sources)]
    text = (
        "Processor time that a step of the whole training takes, in steps of the standard ensemble of as many images: "
        "a long training less a short one, so that compilation and what is paid once are left out. Of methods of "
        "several trainings a step is one of each."
    )
    return Section("What a step costs", [Paragraph(text), SortableTable("Times", columns, lines)]) if lines else None


def chains_section(results: Results) -> Section | None:
    """Whether the chains of HMC have mixed, place by place."""
    columns = [
        Column("Place", text=True),
        *(Column(title, f"{what}; the mean over seeds.") for title, what, *_ in MIXING),
    ]
    lines = []
    for row in results.rows:
        if row.method == WITHOUT_LENGTH and any(results.chosen(row)):
            cells = [
                score_cell(value, Interval(value.mean, float("nan")).text(digits))
                for *_, part, key, digits in MIXING
                for value in [results.mean(row, key, part)]
            ]
            lines.append([Cell(f"{row.dataset}, {row.model}"), *cells])
    text = (
        "R̂ near 1, and as many effective samples as were taken, say that chains agree; they cannot say that every mode "
        "was found. Two chains of 60 samples after 20 of burn-in, a sixth of the method's default."
    )
    return Section("HMC's chains", [Paragraph(text), SortableTable("Chains", columns, lines)]) if lines else None


def of_method(results: Results, method: str, protocol: str) -> list[tuple[bool, Interval]]:
    """For each place with all its seeds: whether nothing differs there, and the NLL less the standard ensemble's."""
    found = []
    for place in results.places():
        row, standard = results.find(method, place), results.find("standard", place)
        if place.protocol != protocol or row is None or standard is None:
            continue
        difference = results.difference(row, standard, "nll")
        if all(results.chosen(row)) and all(results.chosen(standard)) and not np.isnan(difference.mean):
            found.append((place.dataset.endswith(".same") or "." not in place.dataset, difference))
    return found


ENSEMBLES = Study(
    name="ensembles",
    title="Every ensemble, with the same budget",
    question="Digits and tables with 100 labels: which ensemble's probabilities are right, and where rows differ?",
    rows=rows,
    defaults={"datasets": PLACES, "members": MEMBERS, "protocols": BUDGETS},
    protocols=BUDGETS,
    sections=(overall_section, by_place_section, steps_section, chains_section),
    notes=(
        "Defaults of every method; nothing is tuned, so a method may be better than it looks here.",
        "Under equal time, methods of one network get up to ten times as many steps, and those of several trainings "
        "fewer; HMC has no number of steps, and runs with short chains under equal steps alone, on perceptrons.",
        "Shifts whose data are not at hand fail and are named; the folder is the one that NU_ENSEMBLES_DATA names.",
    ),
)

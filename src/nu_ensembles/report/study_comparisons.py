"""Tables of single studies: methods side by side, label schemes, cost, the safety of auto, single corruptions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, Table
from nu_ensembles.report.study_curves import interval_of
from nu_ensembles.report.study_tables import BY_KEY, place_name
from nu_ensembles.studies.auto_safety import OTHER_TOLERANCES, TOLERANCE
from nu_ensembles.studies.comparison import METRICS, Interval
from nu_ensembles.studies.label_ablation import SCHEMES
from nu_ensembles.studies.method_comparison import TIMED
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.study import Row

HIGHER_IS_BETTER = ("accuracy",)
COMPARED = ("accuracy", "nll", "ece", "brier_reliability")


def difference_cell(metric: str, difference: Interval) -> Cell:
    """A signed difference, marked if its interval excludes zero."""
    if math.isnan(difference.mean):
        return Cell("–", "–")
    mark = ""
    if difference.excludes_zero and metric != "mutual_information":
        mark = "better" if (difference.mean > 0) == (metric in HIGHER_IS_BETTER) else "worse"
    return Cell(BY_KEY[metric].text(difference, signed=True), difference.mean, mark)


def method_table(results: Results) -> Section | None:
    """Every method against the standard ensemble on the same seeds, before and after temperature scaling."""
    blocks: list[Paragraph | Table] = [
        Paragraph(
            "Differences to the standard ensemble of the same protocol, seed by seed; ✓ and ✗ where the 95 % interval "
            "excludes zero (about one in twenty does so by chance where nothing differs). With T: both after "
            "temperature scaling fitted on the validation rows."
        )
    ]
    columns = [
        Column("Trained how", text=True),
        *(Column(f"Δ {BY_KEY[key].title}") for key in COMPARED),
        *(Column(f"Δ {BY_KEY[key].title}, with T") for key in ("nll", "ece")),
        Column("Time", "Of training, for the same number of steps, relative to the standard ensemble."),
    ]
    for place in results.places():
        standard = results.find("standard", place)
        rows = [row for row in results.rows if row.place == place and row is not standard]
        if standard is None or not rows or not standard.scored:
            continue
        lines = []
        for row in rows:
            cells = [difference_cell(key, results.difference(row, standard, key)) for key in COMPARED]
            for key in ("nll", "ece"):
                cells.append(difference_cell(key, results.difference(row, standard, key, ("scaled", "scaled"))))
            times = _relative_time(results, row, standard)
            lines.append([Cell(row.title), *cells, Cell("–" if math.isnan(times) else f"{times:.1f} ×", times)])
        caption = f"{place_name(place)}, protocol “{place[3]}”: difference to the standard ensemble"
        blocks.append(Table(caption, columns, lines))
    return Section("Every method against the standard ensemble", blocks) if len(blocks) > 1 else None


def _relative_time(results: Results, row: Row, standard: Row) -> float:
    """Time of a step of all members against the standard ensemble's; nan if it was not timed."""
    times = []
    for each in (row, standard):
        timed = results.find(each.method, (row.dataset, row.n_train, row.model, TIMED))
        times.append(math.nan if timed is None else results.mean(timed, "milliseconds_a_step", "cost").mean)
    return times[0] / times[1]


def ablation(results: Results) -> Section | None:
    """Every label scheme against the standard ensemble and against the paper's own scheme."""
    blocks: list[Paragraph | Table] = []
    for place in results.places():
        standard = results.find("standard", place)
        papers = results.find("nu", place, labels="without_replacement")
        if standard is None or papers is None:
            continue
        for reference, name in ((standard, "the standard ensemble"), (papers, "labels without replacement")):
            lines = []
            for scheme, title in SCHEMES.items():
                row = results.find("nu", place, labels=scheme)
                if row is not None and row is not reference:
                    cells = [difference_cell(m.key, results.difference(row, reference, m.key)) for m in METRICS]
                    lines.append([Cell(title), *cells])
            columns = [Column("Labels", text=True), *(Column(f"Δ {metric.title}") for metric in METRICS)]
            blocks.append(Table(f"{place_name(place)}: difference to {name}", columns, lines))
    if not blocks:
        return None
    text = (
        "If the gain came from the diversity of the labels, shared labels and a uniform target should lose it. ✓ and "
        "✗: the 95 % interval of the paired difference over seeds excludes zero."
    )
    return Section("Is it the diversity of the labels?", [Paragraph(text), *blocks])


def cost_section(results: Results) -> Section | None:
    """Seconds an epoch and member, and relative to the standard ensemble."""
    columns = [
        Column("Trained how", text=True),
        Column("ms, epoch and member", "Milliseconds of training for one epoch of one member, all members together."),
        Column("Times standard", "Relative to the standard ensemble of the same network."),
        Column("ms a step", "Milliseconds of a step of all members."),
        Column("First run, s", "The first training, with its compilation."),
    ]
    lines = []
    for row in results.rows:
        seconds = results.values(row, "seconds_per_epoch_and_member", "cost")
        standard = results.find("standard", row.place)
        if np.isnan(seconds).all():
            continue
        base = (
            results.values(standard, "seconds_per_epoch_and_member", "cost")
            if standard is not None
            else seconds * np.nan
        )
        values = [
            (interval_of(1e3 * seconds), 2),
            (interval_of(seconds / base), 2),
            (results.mean(row, "milliseconds_a_step", "cost"), 3),
            (results.mean(row, "first_seconds", "cost"), 1),
        ]
        cells = [Cell(value.text(digits), "–" if math.isnan(value.mean) else value.mean) for value, digits in values]
        lines.append([Cell(f"{place_name(row.place)}: {row.title}"), *cells])
    return Section("Time", [Table("Time of training", columns, lines)]) if lines else None


def auto_section(results: Results) -> Section | None:
    """beta="auto" against the early-stopped standard ensemble, with and without temperature, and the last epoch."""
    columns = [
        Column("Data", text=True),
        Column("Runs"),
        Column("NLL, early-stopped", "Relative change of the test NLL against the early-stopped standard ensemble."),
        Column("Worst"),
        Column("NLL, with T", "The same against the early-stopped standard ensemble after temperature scaling."),
        Column("NLL, last epoch", "The same against the standard ensemble trained to the last epoch."),
        Column("> 1 % NLL worse", "Runs in which auto is worse than early-stopped by more than 1 % in NLL."),
        Column("> 1 pt accuracy"),
        Column("> .01 ECE"),
        Column("β = 0 taken"),
    ]
    everything: list[np.ndarray] = []
    lines = []
    for row in results.rows:
        runs = _auto_runs(results, row)
        if len(runs):
            everything.append(runs)
            lines.append([Cell(place_name(row.place)), *_auto_cells(runs)])
    if not lines:
        return None
    lines.append([Cell("all", mark="reference"), *_auto_cells(np.concatenate(everything))])
    tables = [Table("Relative change of the test NLL, %", columns, lines), *_other_tolerances(results)]
    return Section("Auto against standard ensembles", tables)


def _other_tolerances(results: Results) -> list[Table]:
    """All runs together, with less and with more caution than auto's."""
    columns = [
        Column("Smallest β within", text=True),
        Column("NLL, early-stopped", "Relative change of the test NLL against the early-stopped standard ensemble."),
        Column("Worst"),
        Column("> 1 % NLL worse"),
        Column("> 1 % NLL better"),
        Column("β = 0 taken"),
    ]

    def of(part: str, metric: str) -> np.ndarray:
        return np.concatenate([results.values(row, metric, part) for row in results.rows])

    lines = []
    for tolerance in sorted((TOLERANCE, *OTHER_TOLERANCES)):
        own = tolerance == TOLERANCE
        name = f"{tolerance:g} standard error{'' if tolerance == 1 else 's'}{' (auto)' if own else ''}"
        part, beta = ("auto", "beta") if own else (f"tolerance_{tolerance:g}", f"beta_{tolerance:g}")
        change = of(part, "nll") / of("early_stopped", "nll") - 1
        there = ~np.isnan(change)
        if not there.any():
            return []
        change = change[there]
        counts = [(change > 0.01).sum(), (change < -0.01).sum(), (of("choice", beta)[there] == 0).sum()]
        changes = interval_of(change), Interval(float(change.max()), math.nan)
        cells = [Cell(each.text(1, 100, signed=True), each.mean) for each in changes]
        lines.append([Cell(name), *cells, *(Cell(str(int(n)), int(n)) for n in counts)])
    return [Table("Less caution and more, all runs", columns, lines)]


def _auto_runs(results: Results, row: Row) -> np.ndarray:
    """A line for each run: changes in NLL against the three others, in accuracy and ECE, and whether beta is 0."""

    def of(part: str, metric: str) -> np.ndarray:
        return results.values(row, metric, part)

    nll = of("auto", "nll")
    runs = np.stack(
        [
            nll / of("early_stopped", "nll") - 1,
            nll / of("early_temperature", "nll") - 1,
            nll / of("last_epoch", "nll") - 1,
            of("auto", "accuracy") - of("early_stopped", "accuracy"),
            of("auto", "ece") - of("early_stopped", "ece"),
            of("choice", "beta") == 0,
        ],
        axis=1,
    )
    return runs[~np.isnan(runs).any(axis=1)]


def _auto_cells(runs: np.ndarray) -> list[Cell]:
    early, scaled, last = (interval_of(runs[:, column]) for column in range(3))
    counts = [(runs[:, 0] > 0.01).sum(), (runs[:, 3] < -0.01).sum(), (runs[:, 4] > 0.01).sum(), runs[:, 5].sum()]
    worst = float(runs[:, 0].max())
    return [
        Cell(str(len(runs)), len(runs)),
        Cell(early.text(1, 100, signed=True), early.mean),
        Cell(f"{100 * worst:+.1f}".replace("-", "−"), worst),
        Cell(scaled.text(1, 100, signed=True), scaled.mean),
        Cell(last.text(1, 100, signed=True), last.mean),
        *(Cell(str(int(count)), int(count)) for count in counts),
    ]


def worst_corruptions(results: Results) -> Section | None:
    """ECE under each corruption at severity 5, nu minus standard."""
    blocks = []
    for place in results.places():
        standard, nu = results.find("standard", place), results.find("nu", place)
        if standard is None or nu is None:
            continue
        tables = [_at_worst(results, row) for row in (standard, nu)]
        names = sorted(set(tables[0]) & set(tables[1]))
        columns = [Column("Corruption", text=True), Column("standard"), Column("ν"), Column("Difference")]
        lines = []
        for name in names:
            values = [tables[0][name], tables[1][name]]
            cells = [Cell(interval_of(v).text(), float(np.nanmean(v))) for v in values]
            lines.append(
                [Cell(name.replace("_", " ")), *cells, difference_cell("ece", interval_of(values[1] - values[0]))]
            )
        if lines:
            blocks.append(Table(f"{place_name(place)} ({place[3]}): ECE at severity 5", columns, lines))
    return Section("Corruption by corruption", blocks) if blocks else None


def _at_worst(results: Results, row: Row) -> dict[str, np.ndarray]:
    """ECE at severity 5 of every seed, by corruption; nan where missing."""
    found: dict[str, np.ndarray] = {}
    for seed, corrupted in enumerate(results.extras(row, "corruptions")):
        for each in corrupted or ():
            if each["severity"] == 5:
                values = found.setdefault(each["corruption"], np.full(len(row.candidates), np.nan))
                values[seed] = each["ece"]
    return found


COMPARISONS: dict[str, Callable[[Results], Section | None]] = {
    "method_table": method_table,
    "ablation": ablation,
    "cost": cost_section,
    "auto_safety": auto_section,
    "worst_corruptions": worst_corruptions,
}

"""The studies' tables: sections of their pages, and others that show a whole study in fewer lines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from makers.files import RESULTS, Maker, table, with_numbers_to_the_right
from nu_ensembles.report.page import Section, SortableTable
from nu_ensembles_studies.declare.data_sets import data_set
from nu_ensembles_studies.declare.study import Place, Row
from nu_ensembles_studies.experiments.auto_safety import auto_section
from nu_ensembles_studies.experiments.beta_sensitivity import BETAS, landscape
from nu_ensembles_studies.experiments.corruptions import SEVERITIES, by_severity
from nu_ensembles_studies.experiments.cost import cost_section
from nu_ensembles_studies.experiments.deployment import methods_section, shifts_section
from nu_ensembles_studies.experiments.ensemble_size import TOLERANCE, by_size, plateau
from nu_ensembles_studies.experiments.ensembles import chains_section, overall_section, steps_section
from nu_ensembles_studies.experiments.methods import method_table
from nu_ensembles_studies.experiments.unlabelled_size import FIXED_STEPS, FIXED_VISITS
from nu_ensembles_studies.pages.claims import claims_section
from nu_ensembles_studies.pages.names_and_cells import place_name, row_name
from nu_ensembles_studies.pages.tables import members_section, scores_section, temperature_section, unlabeled_section
from nu_ensembles_studies.results.intervals import METRICS, interval_of
from nu_ensembles_studies.results.results import Results
from nu_ensembles_studies.run.reading import read_results

# Commands that are worth reading below a table.
MOST_COMMANDS = 3
WHOLE = (scores_section, temperature_section, members_section, unlabeled_section)


def results_of(name: str) -> Results:
    return read_results(RESULTS / f"{name}.json")


def study(name: str, sections: Sequence[Callable[[Results], Section | None]], says_where_from: bool = True) -> str:
    """The tables of some sections of a study's page."""
    results = results_of(name)
    lines = []
    for section in filter(None, (each(results) for each in sections)):
        for shown in (block for block in section.blocks if isinstance(block, SortableTable)):
            lines += [f"**{shown.caption}**", "", *_markdown(shown), ""]
    return "\n".join([*lines, _origin(results), ""] if says_where_from else lines)


def severities() -> str:
    """ECE under corruptions, by severity."""
    results = results_of("corruptions")
    rows = []
    for row in results.rows:
        values = by_severity(results, row, "ece")
        if np.isnan(values).all() or _stands_twice(row):
            continue
        rows.append([_name(row), *(interval_of(seeds).text(3) for seeds in values)])
    lines = table(["ECE", "clean", *(f"severity {severity}" for severity in SEVERITIES[1:])], rows)
    note = "Mean ± 95 % interval over seeds; what has no interval is one seed."
    return "\n".join([*lines, "", note, "", _origin(results), ""])


def sizes() -> str:
    """ECE of the first members of an ensemble."""
    results = results_of("ensemble-size")
    shown = (1, 2, 4, 6, 8, 10, 12, 16, 20)
    rows = []
    for row in results.rows:
        values = by_size(results, row, "ece")
        if not values.size or _stands_twice(row):
            continue
        cells = [f"{np.nanmean(values[size - 1]):.3f}" for size in shown]
        rows.append([_name(row), *cells, str(plateau(values, TOLERANCE["ece"]))])
    head = ["ECE of so many members", *map(str, shown), "within .002 of 20 from"]
    return "\n".join([*table(head, rows), "", _origin(results), ""])


def training_sizes() -> str:
    """ECE, accuracy and the fit on the random labels, by the number of labels."""
    results = results_of("training-size")
    sizes = sorted({row.n_train for row in results.rows})
    scores, fits = [], []
    for row in (row for row in results.rows if row.n_train == sizes[0] and not _stands_twice(row)):
        at = [results.find(row.method, row.place._replace(n_train=n)) for n in sizes]
        at = [each if each is not None and not np.isnan(results.values(each, "ece")).all() else None for each in at]
        if sum(each is not None for each in at) < 2:
            continue
        scores.append([_name(row), *("–" if each is None else _score_of_size(results, each) for each in at)])
        if row.method == "nu":
            fits.append([row_name(row), *("–" if each is None else _fit_on_random(results, each) for each in at)])
    heads = [f"{n:,} labels" for n in sizes]
    note = "Mean ± 95 % interval where there are three seeds or more; in square brackets the seeds if fewer than 5."
    lines = [*table(["ECE (accuracy %)", *heads], scores), "", note, ""]
    return "\n".join([*lines, *table(["random labels that members fit, %", *heads], fits), "", _origin(results), ""])


def _score_of_size(results: Results, row: Row) -> str:
    ece, accuracy = results.mean(row, "ece"), results.mean(row, "accuracy")
    n_seeds = int((~np.isnan(results.values(row, "ece"))).sum())
    text = ece.text(3) if n_seeds > 2 else f"{ece.mean:.3f}"
    return f"{text} ({100 * accuracy.mean:.1f})" + (f" [{n_seeds}]" if n_seeds < 5 else "")


def _fit_on_random(results: Results, row: Row) -> str:
    shares = [found["accuracy_on_random_labels"] for found in results.further(row, "unlabeled") if found]
    return f"{100 * np.mean(shares):.1f}"


def betas() -> str:
    """NLL and accuracy over beta at some lengths."""
    results = results_of("beta-sensitivity")
    shown = (10, 20, 50, 100, 200, 260)
    lines = []
    for place in results.places():
        nll, accuracy = (landscape(results, place, metric) for metric in ("nll", "accuracy"))
        trained = ~np.isnan(nll.means).all(axis=1)
        if trained.sum() < len(BETAS) // 2:
            continue
        columns = [nll.lengths.index(n) for n in shown]
        rows = [
            [f"{nll.betas[i]:g}", *(f"{nll.means[i, j]:.2f} ({100 * accuracy.means[i, j]:.1f})" for j in columns)]
            for i in np.flatnonzero(trained)
        ]
        lines += table([f"{place_name(place)}: β", *(f"{n} epochs" for n in shown)], rows)
        lines += ["", f"NLL (accuracy %), {nll.seeds}.", ""]
    return "\n".join([*lines, _origin(results), ""])


def fitted_labels() -> str:
    """What nu does to accuracy and NLL, by how far the members fit their random labels."""
    found = [point for name in ("training-size", "beta-sensitivity", "label-ablation") for point in _fits(name)]
    fits, accuracies, nlls = np.array(found).T
    rows = []
    edges = (-np.inf, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, np.inf)
    for low, high in pairwise(edges):
        inside = (low <= fits) & (fits < high)
        span = f"below {100 * high:g}" if low < 0 else f"{100 * low:g} to {100 * high:g}"
        span = f"{100 * low:g} and more" if high == np.inf else span
        points = [f"{100 * value:+.1f}" for value in (f(accuracies[inside]) for f in (np.mean, np.min, np.max))]
        rows.append([span, str(inside.sum()), *points, f"{nlls[inside].mean():+.2f}"])
    head = [
        "random labels fitted beyond chance, %",
        "trainings",
        "accuracy, points: mean",
        "worst",
        "best",
        "NLL: mean",
    ]
    much = fits >= 0.02
    note = f"Of the {much.sum()} trainings at two per cent or more, {(accuracies[much] < 0).sum()} lost accuracy."
    return "\n".join([*table(head, rows), "", note, ""])


def _fits(name: str) -> list[tuple[float, float, float]]:
    """Of every row of nu: the share of fitted labels beyond chance, and accuracy and NLL less those of standard."""
    results = results_of(name)
    found = []
    for row in (row for row in results.rows if row.method == "nu" and row.protocol != "published"):
        epochs = {"epochs": row.value_of("epochs")} if name == "beta-sensitivity" else {}
        standard = results.find("standard", row.place, **epochs)
        stored = [each["accuracy_on_random_labels"] for each in results.further(row, "unlabeled") if each]
        shares = [share for share in stored if share is not None]
        changes = [results.difference(row, standard, metric).mean for metric in ("accuracy", "nll")]
        if shares and np.isfinite(changes).all():
            chance = 1 / data_set(row.dataset).n_classes
            found.append(((float(np.mean(shares)) - chance) / (1 - chance), *changes))
    return found


def when() -> str:
    """What nu gains on the digits, by the numbers of labelled and unlabelled rows."""
    results = results_of("when-digits")
    labelled = sorted({row.n_train for row in results.rows})
    unlabelled = sorted({row.value_of("m") for row in results.rows if row.method == "nu"})
    rows = []
    for n in labelled:
        place = Place("digits", n, "mlp", "matched")
        standard = results.find("standard", place)
        changes = [
            results.difference(results.find("nu", place, m=m), standard, metric)
            for metric in ("nll", "ece")
            for m in unlabelled
        ]
        rows.append([str(n), *(f"{change.mean:+.3f} ± {change.half_width:.3f}" for change in changes)])
    heads = [f"{metric}, {m} unlabelled" for metric in ("NLL", "ECE") for m in unlabelled]
    note = f"ν minus standard, {results.options.seeds} splits, 95 % intervals. {_origin(results)}"
    return "\n".join([*table(["labels", *heads], rows), "", note, ""])


def unlabelled_sizes() -> str:
    """Scores on the digits by the number of unlabelled rows, at fixed steps and at fixed visits."""
    results = results_of("unlabelled-size-digits")
    ways = {FIXED_STEPS: "fewer, the more there are", FIXED_VISITS: "as many, whatever their number"}
    rows = []
    for row in results.rows:
        if row.method == "nu" or row.protocol == FIXED_STEPS:
            visits = "none: standard" if row.method != "nu" else ways[row.protocol]
            scores = [results.mean(row, metric.key).text(metric.digits, metric.scale) for metric in METRICS[:3]]
            rows.append([str(row.value_of("m")), visits, *scores])
    head = ["unlabelled rows", "visits of each", *(metric.title for metric in METRICS[:3])]
    note = f"{results.options.seeds} splits, 95 % intervals. {_origin(results)}"
    return "\n".join([*table(head, rows), "", note, ""])


def resnet_seeds() -> str:
    """The published rows of the ResNet on CIFAR-10, seed by seed."""
    results = results_of("table1")
    rows = []
    for method, title in (("standard", "standard"), ("nu", "ν")):
        row = results.find(method, Place("cifar10", 1000, "wrn-22-4", "published"))
        scores = [results.values(row, metric) for metric in ("ece", "nll", "mutual_information")]
        scores += [results.values(row, "temperature", ""), 100 * results.values(row, "member_accuracy")]
        for seed, members in enumerate(results.further(row, "members")):
            each = [f"{values[seed]:.{digits}f}" for values, digits in zip(scores, (3, 2, 2, 2, 1), strict=True)]
            worst = f"{100 * min(members['accuracy']):.1f}" if members else "not stored"
            rows.append([title, str(seed), *each, worst])
    head = ["CIFAR-10, ResNet22", "seed", "ECE", "NLL", "MI, bits", "T", "mean member %", "worst member %"]
    return "\n".join([*with_numbers_to_the_right(head, rows), ""])


def twelve_cells() -> str:
    """How long Table 1's standard and nu cells took on one seed."""
    results = results_of("table1-one-seed")
    seconds = {(cell.dataset, cell.model, cell.method): record.seconds for cell, record in results.records.items()}
    rows = []
    for dataset, model in dict.fromkeys((row.dataset, row.model) for row in results.rows):
        both = [f"{seconds[dataset, model, method]:.0f}" for method in ("standard", "nu")]
        rows.append([place_name(Place(dataset, 1000, model)), *both])
    total = results.about["seconds"]
    note = f"In all {total:.0f} s ({total / 60:.1f} minutes). {_origin(results)}"
    return "\n".join([*with_numbers_to_the_right(["one seed, seconds", "standard", "ν"], rows), "", note, ""])


def _stands_twice(row: Row) -> bool:
    """Whether the row is one of another protocol again: nu's epochs are the same under both."""
    return row.method == "nu" and row.protocol == "matched"


def _name(row: Row) -> str:
    return row_name(row) + (", ν's epochs" if row.protocol == "matched" else "")


def _origin(results: Results) -> str:
    """What is missing, and the commands that measured the rest."""
    missing = len(results.missing())
    left = f"{missing} of {missing + len(results.records)} cells have not been trained yet. " if missing else ""
    about = results.about["environment"]
    makers = {f"{maker['device']}, jax {maker['jax']}": None for maker in results.makers()}
    on = " and ".join(makers) if len(makers) > 1 else f"{about['device']}, jax {about['versions']['jax']}"
    commands = list(dict.fromkeys(results.about["commands"]))
    by = ", ".join(f"`{command}`" for command in commands)
    if len(commands) > MOST_COMMANDS:
        by = f"{len(commands)} runs of `nu-ensembles study {results.study.name}`, whose commands stand in `results/`,"
    return f"{left}By {by} on {on}."


def _markdown(shown: SortableTable) -> list[str]:
    columns = shown.columns
    head = [" | ".join(column.title for column in columns), "|".join("---" if c.text else "---:" for c in columns)]
    rows = [" | ".join(" ".join(cell.text.split()) for cell in row) for row in shown.rows]
    return [f"| {line} |" for line in (*head, *rows)] + (["", shown.note] if shown.note else [])


MAKER = Maker(
    tables={
        "deployment-study.md": functools.partial(study, "deployment", (methods_section, shifts_section)),
        "deployment-cifar.md": functools.partial(study, "deployment-cifar", (methods_section, shifts_section)),
        "deployment-fresh.md": functools.partial(study, "deployment-fresh", (methods_section, shifts_section)),
        "auto-safety-study.md": functools.partial(study, "auto-safety-study", (auto_section,)),
        "auto-safety-fresh.md": functools.partial(study, "auto-safety-fresh", (auto_section,)),
        "auto-safety-lenet.md": functools.partial(study, "auto-safety-lenet", (auto_section,)),
        "ensembles.md": functools.partial(study, "ensembles", (overall_section,)),
        "ensembles-steps.md": functools.partial(study, "ensembles", (steps_section,)),
        "ensembles-chains.md": functools.partial(study, "ensembles", (chains_section,)),
        "methods-digits.md": functools.partial(study, "methods-digits", (method_table, scores_section)),
        "table1-claims.md": functools.partial(study, "table1", (claims_section,), says_where_from=False),
        "table1.md": functools.partial(study, "table1", WHOLE),
        "table1-resnet-seeds.md": resnet_seeds,
        "table1-one-seed.md": twelve_cells,
        "cost.md": functools.partial(study, "cost", (cost_section,)),
        "cost-cpu.md": functools.partial(study, "cost-cpu", (cost_section,)),
        "label-ablation.md": functools.partial(study, "label-ablation", (scores_section, unlabeled_section)),
        "corruption-severities.md": severities,
        "ensemble-size.md": sizes,
        "training-size.md": training_sizes,
        "beta-sensitivity.md": betas,
        "fitted-labels.md": fitted_labels,
        "when-digits.md": when,
        "unlabelled-size-digits.md": unlabelled_sizes,
    }
)

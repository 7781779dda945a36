"""The demo's report page: scores, gains, reliability diagrams, the search, the choices, how it was run."""

from __future__ import annotations

import math

from nu_ensembles.report.differences import difference_plot
from nu_ensembles.report.figures import reliability_diagram
from nu_ensembles.report.heatmap import nll_heat_map
from nu_ensembles.report.page import Cell, Column, Gallery, HowItWasRun, Page, Paragraph, Picture, Section, Table
from nu_ensembles.report.svg import new_axes
from nu_ensembles.studies.comparison import METRICS, Comparison, Interval, Metric
from nu_ensembles.studies.demo_result import SETTING_PICKED, DemoResult, DemoSettings

# Whose reliability is drawn.
DRAWN = ("standard_last", "standard_early", "nu_fixed", "nu_auto")
# Inches; four of them stand side by side, so letters are large for the figure.
SIZE = (3.2, 3.6)
HIGHER_IS_BETTER = ("accuracy",)


def demo_page(result: DemoResult) -> Page:
    """The page of a demo; it shows what was measured, whatever it is."""
    settings, n_seeds = result.settings, len(result.comparison.seeds)
    splits = f"{n_seeds} random splits" if n_seeds > 1 else "one random split"
    about = (
        f"Handwritten digits (8×8 grey levels): {settings.n_labels} labelled, {settings.n_unlabeled} unlabelled and "
        f"{result.labels.shape[1]} test images, {splits}. Every ensemble has {settings.n_members} networks with "
        f"{' and '.join(map(str, settings.hidden))} hidden units. ν-ensembles also fit random labels on the unlabelled "
        "images, with weight β; β = 0 is a standard ensemble. “Last epoch” means "
        f"{settings.last_step} steps; early stopping, temperature and ν (auto) are chosen on the labelled images "
        "alone, out of fold."
    )
    picked = [Paragraph(SETTING_PICKED)] if settings == DemoSettings() else []
    return Page(
        title="ν-ensembles on handwritten digits",
        lead=result.verdict,
        sections=[
            Section("What was compared", [Paragraph(about), scores_table(result.comparison), *picked]),
            Section("Gains over the early-stopped standard ensemble", _gains(result)),
            Section("Are the probabilities right?", _reliability(result)),
            Section("How β and the training length were chosen", _search(result)),
        ],
        run=HowItWasRun(
            command=result.command,
            seeds=result.comparison.seeds,
            seconds=result.seconds,
            environment=result.environment,
            settings={
                "Training": f"AdamW, learning rate {settings.learning_rate:g}, {settings.batch_size} labelled and as "
                "many unlabelled images a member and step",
            },
        ),
    )


def scores_table(comparison: Comparison, metrics: tuple[Metric, ...] = METRICS) -> Table:
    """Every row with the mean of every metric and its interval."""
    rows = []
    for row, title in comparison.rows.items():
        means = [comparison.mean(row, metric.key) for metric in metrics]
        cells = [_cell(metric.text(mean), mean) for metric, mean in zip(metrics, means, strict=True)]
        rows.append([Cell(title), *cells])
    n_seeds = len(comparison.seeds)
    over = f"mean ± 95 % interval over {n_seeds} splits" if n_seeds > 1 else "one split"
    return Table(f"Test scores, {over}", _columns(metrics), rows)


def differences_table(comparison: Comparison, metrics: tuple[Metric, ...] = METRICS) -> Table:
    """Every row minus the reference row; what the interval settles is marked."""
    rows = []
    for row, title in comparison.rows.items():
        if row != comparison.reference:
            cells = []
            for metric in metrics:
                difference = comparison.difference(row, metric.key)
                mark = _mark(difference, metric.key)
                cells.append(_cell(metric.text(difference, signed=True), difference, mark))
            rows.append([Cell(title), *cells])
    return Table(
        f"Difference to “{comparison.rows[comparison.reference]}”, paired by split",
        _columns(metrics),
        rows,
        note="✓ better and ✗ worse: the 95 % interval (Student's t over splits) of the paired difference excludes "
        "zero. Where nothing differs, about one comparison in twenty is marked by chance; splits draw from the same "
        "images, so they are not fully independent.",
    )


def _gains(result: DemoResult) -> list[Paragraph | Table | Gallery]:
    pictures = []
    for metric in METRICS:
        if metric.key in ("nll", "ece"):
            caption = (
                f"{metric.title}: left of the line is better. Small dots are splits, bars 95 % intervals of the mean."
            )
            pictures.append(Picture(difference_plot(result.comparison, metric), caption, _in_words(result, metric)))
    return [differences_table(result.comparison), Gallery(pictures)]


def _reliability(result: DemoResult) -> list[Paragraph | Table | Gallery]:
    rows, seeds = result.comparison.rows, result.comparison.seeds
    first = seeds[0]
    one, pooled = [], []
    for row in DRAWN:
        ece = float(result.comparison.values(row, "ece")[0])
        probabilities, labels = result.of_row(row, first)
        drawn = reliability_diagram(probabilities, labels, new_axes(*SIZE), title=rows[row])
        one.append(
            Picture(drawn, f"ECE {ece:.3f}", f"Reliability diagram of {rows[row]} on split {first}, ECE {ece:.3f}.")
        )
        # Splits share images, so a bootstrap over their union would give too narrow a band.
        drawn = reliability_diagram(*result.pooled(row), new_axes(*SIZE), title=rows[row], interval=None)
        ece = result.comparison.mean(row, "ece").mean
        alt = f"Reliability diagram of {rows[row]} over all splits."
        pooled.append(Picture(drawn, f"mean ECE of the splits {ece:.3f}", alt))
    blocks: list[Paragraph | Table | Gallery] = [
        Paragraph(
            "Accuracy against confidence of the predicted class; points below the dotted diagonal are overconfident, "
            "points above it underconfident. The strip below shows how often each confidence occurs."
        )
    ]
    if len(seeds) > 1:
        blocks.append(Gallery(pooled, title=f"All {len(seeds)} splits together"))
    caption = f"Split {first} alone, with 95 % bootstrap bands"
    return [*blocks, Gallery(one, title=caption, folded=len(seeds) > 1)]


def _search(result: DemoResult) -> list[Paragraph | Table | Gallery]:
    pictures = [
        Picture(
            nll_heat_map(choice.grid),
            f"Split {choice.seed}: out-of-fold NLL over β and steps. Empty cells were not measured, because the "
            "candidate had been dropped.",
            f"Heat map of the out-of-fold NLL on split {choice.seed}: β = {choice.beta:g} and {choice.n_steps} steps "
            f"were chosen; the standard ensemble stops at {choice.standard_steps} steps.",
        )
        for choice in result.choices
    ]
    first, others = pictures[:1], pictures[1:]
    how = (
        "Each candidate β trains on the folds of the labelled images and is scored at several training lengths on "
        "what it did not see. The smallest β within one paired standard error of the best is taken, with its "
        "best length; candidates that are clearly past their best, or clearly beaten, are dropped."
    )
    blocks: list[Paragraph | Table | Gallery] = [Paragraph(how), Gallery(first, wide=True)]
    if others:
        blocks.append(Gallery(others, title="The other splits", folded=True, wide=True))
    return [*blocks, _choices_table(result)]


def _choices_table(result: DemoResult) -> Table:
    columns = [
        Column("Split"),
        Column("β"),
        Column("Steps"),
        Column("Standard stops at"),
        Column("Temperature"),
        Column("What the estimator said (out of fold)", text=True),
    ]
    rows = [
        [
            Cell(str(choice.seed)),
            Cell(f"{choice.beta:g}", choice.beta),
            Cell(str(choice.n_steps), choice.n_steps),
            Cell(str(choice.standard_steps), choice.standard_steps),
            Cell(f"{choice.temperature:.2f}", choice.temperature),
            Cell(choice.verdict),
        ]
        for choice in result.choices
    ]
    return Table("The choices of each split", columns, rows)


def _columns(metrics: tuple[Metric, ...]) -> list[Column]:
    return [Column("Trained how", text=True), *(Column(metric.title, metric.meaning) for metric in metrics)]


def _cell(text: str, value: Interval, mark: str = "") -> Cell:
    return Cell(text, text if math.isnan(value.mean) else value.mean, mark)


def _mark(difference: Interval, metric: str) -> str:
    # Less mutual information is more diversity, which is neither better nor worse by itself.
    if metric == "mutual_information" or not difference.excludes_zero:
        return ""
    return "better" if (difference.mean > 0) == (metric in HIGHER_IS_BETTER) else "worse"


def _in_words(result: DemoResult, metric: Metric) -> str:
    comparison = result.comparison
    parts = [
        f"{title} {metric.text(comparison.difference(row, metric.key), signed=True)}"
        for row, title in comparison.rows.items()
        if row != comparison.reference
    ]
    return f"{metric.title} minus that of {comparison.rows[comparison.reference]}: {'; '.join(parts)}."

"""The demo's report page: scores, gains, reliability diagrams, the search, the choices, how it was run."""

from __future__ import annotations

from nu_ensembles.report.figures import reliability_diagram
from nu_ensembles.report.heatmap import nll_heat_map
from nu_ensembles.report.page import (
    Cell,
    Column,
    Gallery,
    HowItWasRun,
    Page,
    Paragraph,
    Picture,
    Section,
    SortableTable,
)
from nu_ensembles.report.svg import new_axes
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.deployment import ABOUT, PICKED, TITLE, DeploymentAct
from nu_ensembles_studies.demo.figure import difference_plot
from nu_ensembles_studies.demo.result import SETTING_PICKED, DemoResult, DemoSettings
from nu_ensembles_studies.pages.names_and_cells import difference_cell, mean_cell
from nu_ensembles_studies.pages.tables import METRIC_COLUMNS
from nu_ensembles_studies.results.intervals import BY_KEY, METRICS, Metric

# Whose reliability is drawn.
DRAWN = ("standard_last", "standard_early", "nu_fixed", "nu_auto")
# Inches; four of them stand side by side, so letters are large for the figure.
SIZE = (3.2, 3.6)
COLUMNS = [Column("Trained how", text=True), *METRIC_COLUMNS]


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
            *([] if result.deployment is None else [_deployed(result.deployment)]),
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


def _deployed(act: DeploymentAct) -> Section:
    """Before and after on a deployment that differs: reliability first, then all scores."""
    pictures = []
    for row, title in act.comparison.rows.items():
        ece = act.comparison.mean(row, "ece").mean
        drawn = reliability_diagram(*act.pooled(row), new_axes(*SIZE), title=title, interval=None)
        alt = f"Reliability diagram of {title} on {TITLE}, ECE {ece:.3f}."
        pictures.append(Picture(drawn, f"mean ECE of the splits {ece:.3f}", alt))
    about = (
        f"{ABOUT}, {len(act.betas)} splits. Both ensembles are stopped by labelled images; ν also sees unlabelled ones "
        f"of the deployment, and no label from there. {PICKED} The page “Rows from where you deploy” of the "
        "documentation says what to expect of others."
    )
    table = scores_table(act.comparison)
    said = Paragraph(f"What the classifier said on split {act.comparison.seeds[0]}: {act.verdicts[0]}")
    return Section("A deployment that differs", [Gallery(pictures), Paragraph(about), table, said])


def scores_table(comparison: Comparison) -> SortableTable:
    """Every row with the mean of every metric and its interval."""
    lines = [
        [Cell(title), *(mean_cell(metric, comparison.mean(row, metric.key)) for metric in METRICS)]
        for row, title in comparison.rows.items()
    ]
    n_seeds = len(comparison.seeds)
    over = f"mean ± 95 % interval over {n_seeds} splits" if n_seeds > 1 else "one split"
    return SortableTable(f"Test scores, {over}", COLUMNS, lines)


def differences_table(comparison: Comparison) -> SortableTable:
    """Every row minus the reference row; what the interval settles is marked."""
    lines = [
        [Cell(title), *(difference_cell(metric, comparison.difference(row, metric.key)) for metric in METRICS)]
        for row, title in comparison.rows.items()
        if row != comparison.reference
    ]
    return SortableTable(
        f"Difference to “{comparison.rows[comparison.reference]}”, paired by split",
        COLUMNS,
        lines,
        note="✓ better and ✗ worse: the 95 % interval (Student's t over splits) of the paired difference excludes "
        "zero. Where nothing differs, about one comparison in twenty is marked by chance; splits draw from the same "
        "images, so they are not fully independent.",
    )


def _gains(result: DemoResult) -> list[Paragraph | SortableTable | Gallery]:
    pictures = []
    for metric in (BY_KEY["nll"], BY_KEY["ece"]):
        caption = f"{metric.title}: left of the line is better. Small dots are splits, bars 95 % intervals of the mean."
        pictures.append(Picture(difference_plot(result.comparison, metric), caption, _in_words(result, metric)))
    return [differences_table(result.comparison), Gallery(pictures)]


def _reliability(result: DemoResult) -> list[Paragraph | SortableTable | Gallery]:
    comparison, first = result.comparison, result.comparison.seeds[0]
    one, pooled = [], []
    for row in DRAWN:
        title, ece = comparison.rows[row], float(comparison.values(row, "ece")[0])
        drawn = reliability_diagram(*result.of_row(row, first), new_axes(*SIZE), title=title)
        alt = f"Reliability diagram of {title} on split {first}, ECE {ece:.3f}."
        one.append(Picture(drawn, f"ECE {ece:.3f}", alt))
        # Splits share images, so a bootstrap over their union would give too narrow a band.
        drawn = reliability_diagram(*result.pooled(row), new_axes(*SIZE), title=title, interval=None)
        caption = f"mean ECE of the splits {comparison.mean(row, 'ece').mean:.3f}"
        pooled.append(Picture(drawn, caption, f"Reliability diagram of {title} over all splits."))
    text = (
        "Accuracy against confidence of the predicted class; points below the dotted diagonal are overconfident, "
        "points above it underconfident. The strip below shows how often each confidence occurs."
    )
    n_splits = len(comparison.seeds)
    together = [Gallery(pooled, title=f"All {n_splits} splits together")] if n_splits > 1 else []
    alone = Gallery(one, title=f"Split {first} alone, with 95 % bootstrap bands", folded=n_splits > 1)
    return [Paragraph(text), *together, alone]


def _search(result: DemoResult) -> list[Paragraph | SortableTable | Gallery]:
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
    how = (
        "Each candidate β trains on the folds of the labelled images and is scored at several training lengths on "
        "what it did not see. The smallest β within one paired standard error of the best is taken, with its "
        "best length; candidates that are clearly past their best, or clearly beaten, are dropped."
    )
    others = [Gallery(pictures[1:], title="The other splits", folded=True, wide=True)] if pictures[1:] else []
    return [Paragraph(how), Gallery(pictures[:1], wide=True), *others, _choices_table(result)]


def _choices_table(result: DemoResult) -> SortableTable:
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
    return SortableTable("The choices of each split", columns, rows)


def _in_words(result: DemoResult, metric: Metric) -> str:
    comparison = result.comparison
    parts = [
        f"{title} {metric.text(comparison.difference(row, metric.key), signed=True)}"
        for row, title in comparison.rows.items()
        if row != comparison.reference
    ]
    return f"{metric.title} minus that of {comparison.rows[comparison.reference]}: {'; '.join(parts)}."

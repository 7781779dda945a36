"""The demo's result on a terminal, or as plain text of 100 columns where standard output is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nu_ensembles.studies.comparison import METRICS, Interval, Metric
from nu_ensembles.studies.demo_result import DemoResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Below this a cell takes two lines, which fits 80 columns.
WIDE = 100


def print_demo(result: DemoResult, console: Console | None = None) -> None:
    """Prints the scores, the differences to the early-stopped standard ensemble, the choices, and the verdict."""
    from rich.console import Console

    if console is None:
        console = Console(highlight=False)
        if not console.is_terminal:
            # rich takes a pipe for 80 columns; a file has no edge.
            console = Console(highlight=False, width=WIDE)
    wide = console.width >= WIDE
    settings, comparison = result.settings, result.comparison
    n_test, n_seeds = result.labels.shape[1], len(comparison.seeds)
    console.print(
        f"Handwritten digits: {settings.n_labels} labels, {settings.n_unlabeled} unlabelled, {n_test} test images; "
        f"{settings.n_members} networks of {'-'.join(map(str, settings.hidden))} units; {n_seeds} "
        f"split{'s' if n_seeds > 1 else ''}, mean ± 95 % interval.\n"
    )
    console.print(_scores(result, wide))
    console.print(f"\nDifference to “{comparison.rows[comparison.reference]}”, split by split:\n")
    console.print(_differences(result, wide))
    console.print()
    for choice in result.choices:
        console.print(
            f"split {choice.seed}: ν auto took β = {choice.beta:g} and {choice.n_steps} steps; the standard ensemble "
            f"stops at {choice.standard_steps}; temperature {choice.temperature:.2f}"
        )
    console.print()
    for sentence in result.verdict:
        console.print(sentence)


def markdown_table(result: DemoResult) -> str:
    """The scores as a Markdown table, for documents that quote them."""
    comparison = result.comparison
    lines = [["", *(metric.title for metric in METRICS)], ["---", *("---:" for _ in METRICS)]]
    for row, title in comparison.rows.items():
        lines.append([title, *(metric.text(comparison.mean(row, metric.key)) for metric in METRICS)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _scores(result: DemoResult, wide: bool) -> Table:
    comparison = result.comparison
    table = _table([metric.title for metric in METRICS])
    for row, title in comparison.rows.items():
        table.add_row(title, *(_cell(metric, comparison.mean(row, metric.key), wide) for metric in METRICS))
    return table


def _differences(result: DemoResult, wide: bool) -> Table:
    comparison = result.comparison
    shown = [metric for metric in METRICS if metric.key != "mutual_information"]
    table = _table([metric.title for metric in shown])
    for row, title in comparison.rows.items():
        if row != comparison.reference:
            differences = [comparison.difference(row, metric.key) for metric in shown]
            cells = [_cell(metric, each, wide, signed=True) for metric, each in zip(shown, differences, strict=True)]
            table.add_row(title, *cells)
    return table


def _table(columns: list[str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _cell(metric: Metric, value: Interval, wide: bool, signed: bool = False) -> str:
    """Scores below 1 go without the zero before their point, as papers print them: six columns need the room."""
    text = metric.text(value, signed)
    if metric.scale == 1:
        text = re.sub(r"(?<!\d)0(?=\.\d)", "", text)
    return text if wide else text.replace(" ± ", "\n±")

"""The demo's result on a terminal, or as plain text of 100 columns where standard output is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nu_ensembles.report.page import SortableTable
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.deployment import ABOUT, PICKED, DeploymentAct
from nu_ensembles_studies.demo.page import differences_table, scores_table
from nu_ensembles_studies.demo.result import DemoResult
from nu_ensembles_studies.results.intervals import BY_KEY

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
    console.print(_terminal_table(scores_table(comparison), wide))
    console.print(f"\nDifference to “{comparison.rows[comparison.reference]}”, split by split:\n")
    console.print(_terminal_table(differences_table(comparison), wide, without=BY_KEY["mutual_information"].title))
    console.print()
    for choice in result.choices:
        console.print(
            f"split {choice.seed}: ν auto took β = {choice.beta:g} and {choice.n_steps} steps; the standard ensemble "
            f"stops at {choice.standard_steps}; temperature {choice.temperature:.2f}"
        )
    console.print()
    if result.deployment is not None:
        _print_deployment(result.deployment, console, wide)
    for sentence in result.verdict:
        console.print(sentence)


def _print_deployment(act: DeploymentAct, console: Console, wide: bool) -> None:
    """The second act: the same table on a deployment that differs."""
    console.print(f"\nA deployment that differs: {ABOUT}; {len(act.betas)} splits. {PICKED}\n")
    console.print(_terminal_table(scores_table(act.comparison), wide))
    console.print(f"\nThe classifier said (split {act.comparison.seeds[0]}): {act.verdicts[0]}\n")


def markdown_table(comparison: Comparison) -> str:
    """The scores as a Markdown table, for documents that quote them."""
    table = scores_table(comparison)
    titles = [column.title for column in table.columns[1:]]
    lines = [["", *titles], ["---", *("---:" for _ in titles)], *([cell.text for cell in row] for row in table.rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _terminal_table(table: SortableTable, wide: bool, without: str = "") -> Table:
    """A page's table, but for one column."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("")
    titles = [column.title for column in table.columns[1:]]
    kept = [number for number, title in enumerate(titles, 1) if title != without]
    for number in kept:
        shown.add_column(titles[number - 1], justify="right", no_wrap=True)
    for row in table.rows:
        shown.add_row(row[0].text, *(_short(row[n].text, titles[n - 1].endswith("%"), wide) for n in kept))
    return shown


def _short(text: str, percent: bool, wide: bool) -> str:
    """Scores below 1 go without the zero before their point, as papers print them: six columns need the room."""
    if not percent:
        text = re.sub(r"(?<!\d)0(?=\.\d)", "", text)
    return text if wide else text.replace(" ± ", "\n±")

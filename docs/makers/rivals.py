"""Tables of the comparison with what people pick instead, and of calibrators."""

from __future__ import annotations

import functools

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right
from makers.studies import study
from nu_ensembles_studies.pages.rivals import budgets_section, leaders_section, tables_section, targets_section

# Of a share of an NLL: what counts as harm.
HARM = 0.01
LOWEST_PAIRS = 3


def calibrators() -> str:
    """For each base and calibrator the mean change of the NLL, and how often it does harm."""
    found = stored("calibrators")
    by_base: dict[str, list[dict]] = {}
    for split in found["splits"]:
        for run in split["runs"]:
            by_base.setdefault(run["base"], []).append(run)
    names = list(dict.fromkeys(name for runs in by_base.values() for name in runs[0]["scores"] if name != "none"))
    rows = []
    for name in names:
        cells = [_changes(name, runs) for runs in by_base.values()]
        rows.append([f"`{name}`", *cells])
    taken = [f"{np.mean([run['taken'] != 'none' for run in runs]):.0%}" for runs in by_base.values()]
    rows.append(["taken by `auto`", *taken])
    head = ["NLL, mean change (share of splits that it harms)", *by_base]
    device, n_splits = found["environment"]["device"], len(found["splits"])
    note = (
        f"{n_splits} splits, each a table with so many labels. In brackets: the share of splits on which the test NLL "
        f"is more than 1 % higher than without a calibrator. By `{found['command']}` on {device}."
    )
    return "\n".join([*with_numbers_to_the_right(head, rows), "", note, ""])


def _changes(name: str, runs: list[dict]) -> str:
    logs = [np.log(run["scores"][name]["nll"] / run["scores"]["none"]["nll"]) for run in runs if name in run["scores"]]
    if not logs:
        return "–"
    change, harmed = np.expm1(np.mean(logs)), np.mean(np.array(logs) > np.log1p(HARM))
    return f"{100 * change:+.1f} % ({harmed:.0%})".replace("-", "−")


def networks(name: str) -> str:
    """Networks for tables: the change of the NLL against the default one, and the worst split."""
    found = stored(name)
    rows = found["rows"]
    shown = [(variant, "mean", variant) for variant in rows[0]["mean"] if variant != "base"]
    about = ""
    if len(shown) > 1:
        shown.append(("the default one, members pooled geometrically", "geometric", "base"))
        lowest = sorted(rows[0]["two"], key=lambda pair: np.mean(_log_ratios(rows, "two", pair)))[:LOWEST_PAIRS]
        shown += [(f"the mean of {pair.replace(' + ', ' and ')}", "two", pair) for pair in lowest]
        about = f" Of the means of two these are the {LOWEST_PAIRS} lowest."
    lines = []
    for title, kind, variant in shown:
        logs, tables = _log_ratios(rows, kind, variant), np.array([row["table"] for row in rows])
        by_table = np.array([logs[tables == table].mean() for table in np.unique(tables)])
        error = 1.96 * by_table.std(ddof=1) / len(by_table) ** 0.5
        low, middle, high = (100 * np.expm1(by_table.mean() + side * error) for side in (-1, 0, 1))
        worst = f"{100 * np.expm1(logs.max()):+.0f} %"
        cells = [f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})", f"{np.mean(logs < 0):.0%}", worst]
        lines.append([title, *(cell.replace("-", "−") for cell in cells)])
    tables, device = {row["table"] for row in rows}, found["environment"]["device"]
    note = f"{len(rows)} splits of {len(tables)} tables; an interval over tables.{about} By `{found['command']}`"
    head = ["network", "NLL, change", "splits with a lower one", "worst split"]
    return "\n".join([*with_numbers_to_the_right(head, lines), "", f"{note} on {device}.", ""])


def _log_ratios(rows: list[dict], kind: str, variant: str) -> np.ndarray:
    return np.array([np.log(row[kind][variant] / row["mean"]["base"]) for row in rows])


MAKER = Maker(
    tables={
        "table-networks.md": functools.partial(networks, "table-networks"),
        "table-ramps.md": functools.partial(networks, "table-ramps"),
        "table-inputs.md": functools.partial(networks, "table-inputs"),
        "rivals.md": functools.partial(study, "rivals", (leaders_section,), says_where_from=False),
        "rivals-aims.md": functools.partial(study, "rivals", (targets_section,), says_where_from=False),
        "rivals-budgets.md": functools.partial(study, "rivals", (budgets_section,), says_where_from=False),
        "rivals-tables.md": functools.partial(study, "rivals", (tables_section,)),
        "calibrators.md": calibrators,
    }
)

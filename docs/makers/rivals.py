"""Tables of the comparison with what people pick instead, and of calibrators."""

from __future__ import annotations

import functools

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right
from makers.studies import study
from nu_ensembles_studies.pages.rivals import budgets_section, leaders_section, tables_section, targets_section

# Of a share of an NLL: what counts as harm.
HARM = 0.01


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


MAKER = Maker(
    tables={
        "rivals.md": functools.partial(study, "rivals", (leaders_section,), says_where_from=False),
        "rivals-aims.md": functools.partial(study, "rivals", (targets_section,), says_where_from=False),
        "rivals-budgets.md": functools.partial(study, "rivals", (budgets_section,), says_where_from=False),
        "rivals-tables.md": functools.partial(study, "rivals", (tables_section,)),
        "calibrators.md": calibrators,
    }
)

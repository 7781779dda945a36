"""Tables about what is chosen, and what choosing costs: when to stop, whether rows differ, β at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right

# Rules were looked at on these seeds, and confirmed on the later ones.
LOOKED_AT = (10, 11, 12)


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _mean(changes: np.ndarray) -> str:
    """The geometric mean of relative changes, and its 95 % interval."""
    logs = np.log1p(changes)
    return f"{_percent(float(logs.mean()))} ± {196 * logs.std(ddof=1) / len(logs) ** 0.5:.1f}"


def when_to_stop() -> str:
    """What every rule for the number of steps does to the test NLL, on the seeds looked at and on others."""
    found = stored("when-to-stop")
    parts = [
        [row["changes"] for row in found["rows"] if (row["seed"] in LOOKED_AT) == first] for first in (True, False)
    ]
    rows = []
    for rule in found["rows"][0]["changes"]:
        looked_at, others = (np.array([row[rule] for row in part]) for part in parts)
        counts = int((others > 0.02).sum()), int((others < -0.02).sum())
        rows.append([rule, _mean(looked_at), _mean(others), _percent(others.max()), *map(str, counts)])
    head = [
        "Test NLL, %, against the folds' best step",
        f"looked at ({len(parts[0])} splits)",
        f"others ({len(parts[1])})",
        "worst",
        "> 2 % worse",
        "> 2 % better",
    ]
    return "\n".join([*with_numbers_to_the_right(head, rows), "", _source(found), ""])


def two_sample_test() -> str:
    """How often the test of every fit calls rows different, where they are not and where they are."""
    found = stored("two-sample-test")
    changes = list(dict.fromkeys(row["change"] for row in found["rows"]))[1:]
    by_set: dict[tuple[str, int], dict[str, Any]] = {}
    for row in found["rows"]:
        by_set.setdefault((row["table"], row["labelled"]), {})[row["change"]] = row
    rows = []
    for (table, labelled), of_set in by_set.items():
        alike = of_set["none"]
        sizes = (_share(alike[f"below_{level}"], alike["resamples"]) for level in (0.01, 0.05))
        powers = [_share(of_set[change]["below_0.01"], of_set[change]["resamples"]) for change in changes]
        rows.append([table, str(labelled), str(alike["unlabelled"]), *sizes, *powers])
    alike = [row for row in found["rows"] if row["change"] == "none"]
    n, seconds = sum(row["resamples"] for row in alike), float(np.mean([row["seconds"] for row in alike]))
    alarms = [_share(sum(row[f"below_{level}"] for row in alike), n) for level in (0.01, 0.05)]
    head = ["table", "labelled", "unlabelled", "alike: p < .01, %", "p < .05, %", *changes]
    total = (
        f"Where nothing differs, rows are called different {alarms[0]} % of {n:,} times at the level used, .01, "
        f"and {alarms[1]} % at .05. The other columns: how often at .01, in %, if unlabelled rows are changed so "
        f"({found['rows'][1]['resamples']} times each). A test takes {1000 * seconds:.0f} ms of processor time."
    )
    source = f"Measured by `{found['command']}` on {found['environment']['device']}."
    return "\n".join([*with_numbers_to_the_right(head, rows), "", total, source, ""])


def _share(count: int, of: int) -> str:
    share = 100 * count / of
    return f"{share:.1f}" if 0 < share < 10 else f"{share:.0f}"


def auto_against_stopped() -> str:
    """What auto makes of the test NLL of an early-stopped standard ensemble, and what it takes."""
    found = stored("auto-against-stopped")
    rows = []
    budgets = sorted({row["budget"] for row in found["rows"]})
    by_budget = {str(budget): [row for row in found["rows"] if row["budget"] == budget] for budget in budgets}
    for name, runs in (by_budget | {"all": found["rows"]}).items():
        change = np.array([run["auto"]["nll"] / run["standard"]["nll"] - 1 for run in runs])
        taken = sum(run["beta"] > 0 for run in runs)
        told = (_percent(float(each)) for each in (change.mean(), change.max(), change.min()))
        rows.append([name, str(len(runs)), str(taken), *told, str(int((change > 0.02).sum()))])
    head = ["labels", "splits", "β > 0", "mean NLL, %", "worst", "best", "> 2 % worse"]
    return "\n".join([*with_numbers_to_the_right(head, rows), "", _source(found), ""])


def ten_lines() -> str:
    """Seconds of README's example, of this version and the one before."""
    found = stored("ten-lines")
    rows = []
    for version in dict.fromkeys(row["version"] for row in found["rows"]):
        of_it = [row for row in found["rows"] if row["version"] == version]
        least = {name: min(row[name] for row in of_it) for name in ("first_wall", "next_wall")}
        busy = {name: min(row[name] for row in of_it) for name in ("first_processor", "next_processor")}
        warm = {name: min(row["warm"][name] for row in of_it) for name in of_it[0]["warm"]}
        ratios = (warm["auto"] / warm[name] for name in ("standard", "standard_alone"))
        numbers = least["first_wall"], busy["first_processor"], least["next_wall"], busy["next_processor"], warm["auto"]
        rows.append(
            [version, *(f"{each:.1f}" for each in numbers[:4]), f"{numbers[4]:.2f}", *(f"{r:.1f}" for r in ratios)]
        )
    head = [
        "version",
        "first process, s",
        "processor",
        "next process, s",
        "processor",
        "one more fit, processor s",
        "times early stopping on the same rows",
        "without unlabelled rows",
    ]
    load = max(row["load"] for row in found["rows"])
    source = f"Measured by `{found['command']}` on {found['environment']['cores']} cores under a load of {load:.0f}."
    return "\n".join([*with_numbers_to_the_right(head, rows), "", source, ""])


def _source(found: dict[str, Any]) -> str:
    environment, seeds = found["environment"], sorted({row["seed"] for row in found["rows"]})
    tables = len({row["table"] for row in found["rows"]})
    return (
        f"Measured by `{found['command']}` on {environment['device']}, jax {environment['versions']['jax']}: {tables} "
        f"tables, seeds {seeds[0]} to {seeds[-1]}."
    )


def will_nu_help() -> str:
    """What a rule that foretells nu's gain comes to on data sets left out, beside never, always and check."""
    found = stored("will-nu-help")
    rows = []
    for part, tables in found["skill"].items():
        for each in tables:
            rules = each["rules"]
            taken = [each["constants"]["always"], rules["rule"]["outcome"], rules["rule"]["less_best_constant"]]
            cells = [_log_ratio(value) for value in taken]
            cells.append(_log_ratio(rules["check"]["less_best_constant"]) if "check" in rules else "–")
            saved = each["squared_error_saved"]
            clear = abs(saved["mean"]) > saved["half_width"]
            cells.append(f"{100 * each['explained']:+.0f} %{'' if clear else ', unclear'}".replace("-", "−"))
            cells.append("yes" if each["has_skill"] else "no")
            rows.append([f"{each['outcome']} ({part})", f"{each['n_runs']}, {each['n_data_sets']}", *cells])
    head = [
        "NLL, %, data sets left out",
        "runs, data sets",
        "always",
        "the rule",
        "the rule less the best constant",
        "`check` less the best constant",
        "explained",
        "skill",
    ]
    source = f"Measured by `{found['command']}` on {found['environment']['device']}."
    return "\n".join([*with_numbers_to_the_right(head, rows), "", source, ""])


def _log_ratio(value: Mapping[str, float]) -> str:
    return f"{_percent(value['mean'])} ± {100 * value['half_width']:.1f}"


MAKER = Maker(
    tables={
        "when-to-stop.md": when_to_stop,
        "auto-against-stopped.md": auto_against_stopped,
        "ten-lines.md": ten_lines,
        "two-sample-test.md": two_sample_test,
        "will-nu-help.md": will_nu_help,
    }
)

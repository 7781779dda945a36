"""Tables of rules for beta under shift, and of what else was measured there."""

from __future__ import annotations

from typing import Any

from makers.files import Maker, stored, table

TITLES = {
    "development": "Developed on",
    "examined": "Looked at while the rule was changed",
    "confirming": "Not seen before it was frozen",
}


def _percent(value: float | None, digits: int = 1) -> str:
    if value is None:
        return "–"
    if value > 10:
        return f"× {value + 1:.2g}"
    return f"{100 * value:+.{digits}f} %".replace("-", "−")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def rules() -> str:
    """Every rule on every role: NLL where the shift hurts and where it does not, ECE, and the source."""
    found = stored("deployment-rules")
    parts = []
    head = ["rule", "NLL where it hurts", "worst", "ECE lower", "NLL where too sure", "ECE lower"]
    head += ["NLL where harmless", "worst", "source NLL", "worst"]
    for role, of_role in found["roles"].items():
        first = next(iter(of_role["rules"].values()))
        seeds = ", ".join(map(str, of_role["seeds"]))
        counts = (
            f"{first['n_hurting']} runs on which the shift hurts ({first['n_too_sure']} of them because the standard "
            f"ensemble is too sure), {first['n_harmless']} on which it does not"
        )
        title = f"**{TITLES[role]}**: {counts}, {len(of_role['shifts'])} shifts, seeds {seeds}."
        rows = [[name, *_cells(scores)] for name, scores in of_role["rules"].items() if _measured(scores)]
        parts += [title, "", *table(head, rows), ""]
    return "\n".join([*parts, _source(found), ""])


def _measured(scores: dict[str, Any]) -> bool:
    """Whether the candidate was trained there: the fresh runs trained few of them."""
    return scores["hurting"] != 0 or scores["source"] != 0


def _cells(scores: dict[str, Any]) -> list[str]:
    return [
        _percent(scores["hurting"]),
        _percent(scores["hurting_worst"], 0),
        _share(scores["ece_lower"]),
        _percent(scores["too_sure"]),
        _share(scores["too_sure_ece_lower"]),
        _percent(scores["harmless"]),
        _percent(scores["harmless_worst"], 0),
        _percent(scores["source"]),
        _percent(scores["source_worst"], 0),
    ]


def accuracy() -> str:
    """How far estimates of the accuracy were off."""
    found = stored("deployment-rules")
    head = [
        "runs",
        "mean absolute error",
        "of the confidence",
        "of members' agreement",
        "largest",
        "within the interval",
    ]
    rows = []
    for role, of_role in found["roles"].items():
        scores = of_role["accuracy"]
        names = ("mean_absolute_error", "of_confidence", "of_agreement", "largest_error")
        rows.append([TITLES[role], *(f"{scores[name]:.3f}" for name in names), _share(scores["covered"])])
    return "\n".join([*table(head, rows), "", _source(found), ""])


def _source(found: dict[str, Any]) -> str:
    versions = found["environment"]["versions"]
    return (
        f"By `benchmarks/deployment_rules.py` on trainings that `benchmarks/deployment_bank.py` kept (jax "
        f"{versions['jax']}, CPU): perceptrons of 64-64, five members, 50 to 200 labels. NLL: geometric mean of the "
        "ratio to the standard ensemble that was stopped early out of fold. Of the runs not seen before, only the "
        "constant β = 0.01 and the candidates in units of the labelled loss were trained, and rules choose among these."
    )


MAKER = Maker(tables={"deployment-rules.md": rules, "deployment-accuracy.md": accuracy})

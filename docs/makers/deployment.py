"""Tables of rules for beta under shift, and of what else was measured there."""

from __future__ import annotations

import statistics
from typing import Any

from makers.files import Maker, stored, table

TITLES = {
    "development": "Developed on",
    "examined": "Looked at while the rule was changed",
    "confirming": "Not seen before it was frozen",
    "ramps": "Looked at again, when perceptrons had got ramps",
    "development, mlp": "Developed on, perceptrons",
    "development, lenet": "Developed on, LeNet",
    "confirming, mlp": "Other tables and shifts, perceptrons",
    "confirming, lenet": "Other shifts, LeNet",
}

# A table of fewer runs says nothing.
FEWEST_RUNS = 4
# The ECE of the standard ensemble above which a shift counts as one that hurts.
HURTS = 0.05


def _percent(value: float | None, digits: int = 1) -> str:
    if value is None:
        return "–"
    if value > 10:
        return f"× {value + 1:.2g}"
    return f"{100 * value:+.{digits}f} %".replace("-", "−")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def rules() -> str:
    """The rule and others, on the trainings with which it was made and on those that confirm it."""
    return _rules("deployment-rules")


def earlier_rules() -> str:
    """What was compared when the rule had two candidates."""
    return _rules("deployment-rules-of-two")


def _rules(name: str) -> str:
    """Every rule on every role: NLL where the shift hurts and where it does not, ECE, and the source."""
    found = stored(name)
    parts = []
    head = ["rule", "NLL where it hurts", "worst", "> +10 %", "ECE lower", "NLL where too sure", "ECE lower"]
    head += ["NLL where harmless", "worst", "source NLL", "worst", "> +2 %"]
    for role, of_role in found["roles"].items():
        first = next(iter(of_role["rules"].values()))
        if first["n_hurting"] < FEWEST_RUNS:
            continue
        seeds = ", ".join(map(str, of_role["seeds"]))
        counts = (
            f"{first['n_hurting']} runs on which the shift hurts ({first['n_too_sure']} of them because the standard "
            f"ensemble is too sure), {first['n_harmless']} on which it does not"
        )
        title = f"**{TITLES[role]}**: {counts}, {len(of_role['shifts'])} shifts, seeds {seeds}."
        measured = {name: scores for name, scores in of_role["rules"].items() if _measured(scores)}
        rows = [[name, *_cells(scores)] for name, scores in measured.items()]
        parts += [title, "", *table(head, rows), ""]
    return "\n".join([*parts, _source(found), ""])


def _measured(scores: dict[str, Any]) -> bool:
    """Whether the candidate was trained there: the fresh runs trained few of them."""
    return scores["hurting"] != 0 or scores["source"] != 0


def _cells(scores: dict[str, Any]) -> list[str]:
    return [
        _percent(scores["hurting"]),
        _percent(scores["hurting_worst"], 0),
        _share(scores.get("hurting_worse")),
        _share(scores["ece_lower"]),
        _percent(scores["too_sure"]),
        _share(scores["too_sure_ece_lower"]),
        _percent(scores["harmless"]),
        _percent(scores["harmless_worst"], 0),
        _percent(scores["source"]),
        _percent(scores["source_worst"], 0),
        _share(scores["source_worse"]),
    ]


def priors() -> str:
    """What moving probabilities to other class shares did."""
    found = stored("deployment-rules")
    runs = found["priors"]
    head = ["deployment", "runs", "moved", "NLL of these", "worst of these", "NLL of all runs"]
    of_shares = [run for run in runs if run["kind"] == "priors"]
    kinds = {
        "no shift": [run for run in runs if run["kind"] == "same"],
        "other shares alone, by a factor of two or more": [run for run in of_shares if run["factor"] >= 2],
        "by less": [run for run in of_shares if run["factor"] < 2],
    }
    rows = []
    for title, of_kind in kinds.items():
        if not of_kind:
            continue
        moved = [run["nll"] for run in of_kind if run["moved"]]
        mean = sum(moved) / len(moved) if moved else None
        of_all = statistics.geometric_mean(1 + run["nll"] for run in of_kind) - 1
        numbers = [_percent(mean), _percent(max(moved)) if moved else "–", _percent(of_all)]
        rows.append([title, str(len(of_kind)), str(len(moved)), *numbers])
    return "\n".join([*table(head, rows), "", _source(found), ""])


def labels() -> str:
    """What labelled rows of the deployment buy."""
    found = stored("deployment-rules")
    names = list(next(iter(found["roles"].values()))["with_labels"])
    rows = []
    for role, of_role in found["roles"].items():
        own, n = (of_role["rules"]["the package's rule"][name] for name in ("hurting", "n_hurting"))
        if n < FEWEST_RUNS:
            continue
        rows.append([TITLES[role], _percent(own), *(_percent(of_role["with_labels"].get(name)) for name in names)])
    return "\n".join([*table(["runs", "no label (the rule)", *names], rows), "", _source(found), ""])


def accuracy() -> str:
    """How far estimates of the accuracy were off."""
    found = stored("deployment-rules")
    names = {
        "mean_absolute_error": "mean absolute error",
        "median_error": "median",
        "largest_error": "largest",
        "of_own_confidence": "of the confidence alone",
        "of_opinions": "of the three opinions' mean",
        "of_confidence": "of the first: confidence",
        "of_threshold": "of the second: threshold",
        "of_neighbours": "of the third: neighbours",
        "of_agreement": "of members' agreement",
        "width": "width of the interval",
    }
    head = ["runs", *names.values(), "within the interval"]
    rows = []
    for role, of_role in found["roles"].items():
        scores = of_role["accuracy"]
        rows.append([TITLES[role], *(f"{scores[name]:.3f}" for name in names), _share(scores["covered"])])
    return "\n".join([*table(head, rows), "", _source(found), ""])


def fits() -> str:
    """Whole fits with the rule as it is."""
    return _fits("deployment-fits")


def earlier_fits() -> str:
    """Whole fits with the rule of two candidates."""
    return _fits("deployment-fits-of-two")


def _fits(name: str) -> str:
    """Whole fits against both standard ensembles, where the shift hurts and where it does not."""
    found = stored(name)
    head = ["the standard ensemble, stopped early", "the shift", "fits", "NLL of ν", "worst", "most, in nats"]
    head += ["ECE lower", "accuracy"]
    rows = []
    for name in ("labelled rows alone", "standardised over both"):
        pairs = [(row["classifiers"][name], row["classifiers"]["nu"]) for row in found["rows"]]
        for title, hurts in (("hurts", True), ("is harmless", False)):
            of_kind = [pair for pair in pairs if (pair[0]["ece"] > HURTS) == hurts]
            ratios = [own["nll"] / standard["nll"] for standard, own in of_kind]
            lower = sum(own["ece"] < standard["ece"] for standard, own in of_kind) / len(of_kind)
            before, after = (statistics.fmean(pair[at]["accuracy"] for pair in of_kind) for at in (0, 1))
            most = max(own["nll"] - standard["nll"] for standard, own in of_kind)
            numbers = [_percent(statistics.geometric_mean(ratios) - 1), _percent(max(ratios) - 1, 0)]
            numbers += [f"{most:+.3f}".replace("-", "−"), _share(lower)]
            rows.append([name, title, str(len(of_kind)), *numbers, f"{before:.3f} → {after:.3f}"])
    sources = [row["classifiers"]["nu"]["source_nll"] / row["classifiers"][name]["source_nll"] for row in found["rows"]]
    told = [(row["expected"], row["classifiers"]["nu"]["accuracy"]) for row in found["rows"] if row["expected"]]
    off = statistics.fmean(abs(expected[0] - true) for expected, true in told)
    within = sum(low <= true <= high for (_, low, high), true in told) / len(told)
    seeds = ", ".join(map(str, sorted({row["seed"] for row in found["rows"]})))
    sentence = (
        f"{len(found['rows'])} shifts, 100 labels, seed {seeds}, by `{found['command']}`. The expected accuracy was "
        f"off by {off:.3f} on average, and its interval held {100 * within:.0f} % of the true ones. On source rows the "
        f"NLL is {_percent(statistics.geometric_mean(sources) - 1)} against the ensemble standardised over both, at "
        f"worst {_percent(max(sources) - 1, 0)}."
    )
    return "\n".join([*table(head, rows), "", sentence, ""])


def cost() -> str:
    """Processor seconds of a fit where rows differ, and where they do not."""
    found = stored("deployment-cost")
    rows = []
    for differing in (each for each in found["fits"] if each["differs"]):
        same = next(e for e in found["fits"] if not e["differs"] and e["shift"] == differing["shift"])
        pairs = zip(same["seconds"], differing["seconds"], strict=True)
        rows.append([differing["shift"], *(f"{one:.1f} → {other:.1f} s" for one, other in pairs)])
    sentence = f"{found['n_labels']} labels, by `{found['command']}`."
    return "\n".join([*table(["shift", "first fit of a process", "second fit"], rows), "", sentence, ""])


def scaling() -> str:
    """Rows to standardise over: the standard ensemble's NLL there against that of the labelled rows."""
    found = stored("deployment-scaling")
    first = "labelled rows"
    head = ["moments of", "NLL where it hurts", "worst", "NLL where harmless, nats", "most", "source NLL"]
    rows = []
    for way in found["rows"][0]["ways"]:
        if way == first:
            continue
        pairs = [(row["ways"][first], row["ways"][way]) for row in found["rows"]]
        hurting = [own["nll"] / base["nll"] for base, own in pairs if base["ece"] > HURTS]
        harmless = [own["nll"] - base["nll"] for base, own in pairs if base["ece"] <= HURTS]
        source = statistics.geometric_mean(own["source_nll"] / base["source_nll"] for base, own in pairs) - 1
        in_nats = [f"{value:+.3f}".replace("-", "−") for value in (statistics.fmean(harmless), max(harmless))]
        cells = [_percent(statistics.geometric_mean(hurting) - 1), _percent(max(hurting) - 1, 0), *in_nats]
        rows.append([way, *cells, _percent(source)])
    n_hurting = sum(row["ways"][first]["ece"] > HURTS for row in found["rows"])
    sentence = (
        f"Against moments of the labelled rows alone, {len(found['rows'])} shifts of tables, on {n_hurting} of which "
        f"they hurt, {found['n_labels']} labels, by `{found['command']}`. Drawn in: x / √(1 + (x / 3)²)."
    )
    return "\n".join([*table(head, rows), "", sentence, ""])


def _source(found: dict[str, Any]) -> str:
    versions = found["environment"]["versions"]
    return (
        f"By `benchmarks/deployment_rules.py` (jax {versions['jax']}) on trainings that "
        "`benchmarks/deployment_bank.py` kept, five members. NLL: geometric mean of the ratio to the standard ensemble "
        "that was stopped early out of fold. Where fewer candidates were trained, rules, also those named oracle, "
        "choose among these."
    )


MAKER = Maker(
    tables={
        "deployment-rules.md": rules,
        "deployment-rules-of-two.md": earlier_rules,
        "deployment-scaling.md": scaling,
        "deployment-cost.md": cost,
        "deployment-accuracy.md": accuracy,
        "deployment-priors.md": priors,
        "deployment-labels.md": labels,
        "deployment-fits.md": fits,
        "deployment-fits-of-two.md": earlier_fits,
    }
)

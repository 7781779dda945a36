"""Writes the measured tables of the README, and those of the documentation that come from benchmarks.

From the files under results/. The studies' tables are made by `make_study_tables.py`.

python docs/make_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nu_ensembles_studies.declare import published
from nu_ensembles_studies.demo.result import SETTING_PICKED, DemoResult
from nu_ensembles_studies.demo.terminal import markdown_table
from nu_ensembles_studies.pages.names_and_cells import row_name
from nu_ensembles_studies.run.reading import read_results

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
README = HERE.parent / "README.md"
# What stands between the marks of a name in the README is written here.
MARKS = ("<!-- {} table: made by docs/make_tables.py -->", "<!-- end of {} table -->")


def auto_safety() -> str:
    """beta="auto" against an early-stopped and a last-epoch standard ensemble, a row per data set."""
    found = json.loads((RESULTS / "auto-safety.json").read_text())
    lines = [
        "| setting | runs | NLL against early-stopped | worst | NLL against last epoch "
        "| worse by > 1 % NLL | β = 0 chosen |",
        "|---|---|---|---|---|---|---|",
    ]
    everything = [run for runs in found["runs"].values() for run in runs]
    for name, runs in [*found["runs"].items(), ("all", everything)]:
        early = np.array([run["auto_nll"] / run["early_stopped_nll"] - 1 for run in runs])
        last = np.array([run["auto_nll"] / run["last_epoch_nll"] - 1 for run in runs])
        n_zero = sum(run["beta"] == 0 for run in runs)
        lines.append(
            f"| {name} | {len(runs)} | {100 * early.mean():+.1f} % | {100 * early.max():+.1f} % "
            f"| {100 * last.mean():+.1f} % | {int((early > 0.01).sum())} | {n_zero} |"
        )
    device, versions = found["environment"]["device"], found["environment"]["versions"]
    lines += [
        "",
        f"Measured by `{found['command']}` on {device} with jax {versions['jax']}; ten members, seeds 0 and up.",
    ]
    return "\n".join(lines) + "\n"


def digits_map() -> str:
    """What a fixed beta does on digits, by the length of training."""
    found = json.loads((RESULTS / "digits-beta-map.json").read_text())
    rows = [row for row in found["rows"] if row["rate"] == 3e-3 and row["unlabeled_batch"] == 32]
    steps = (100, 200, 300, 600, 1000)
    at = {(row["beta"], row["steps"]): row for row in rows}
    lines = [f"| β | {' | '.join(f'{n} steps' for n in steps)} |", f"|---|{'---|' * len(steps)}"]
    for beta in sorted({row["beta"] for row in rows}):
        cells = [at[beta, n] for n in steps]
        texts = [f"{row['ece']:.3f} / {row['nll']:.3f} / {100 * row['accuracy']:.1f}" for row in cells]
        lines.append(f"| {beta:g} | {' | '.join(texts)} |")
    versions, device = found["environment"]["versions"], found["environment"]["device"]
    lines += [
        "",
        f"ECE / NLL / accuracy % on test rows, mean over {found['seeds']} splits, from `{found['command']}` on "
        f"{device}, jax {versions['jax']}.",
    ]
    return "\n".join(lines) + "\n"


def torch_loop() -> str:
    """Ten members as one program against a PyTorch loop over members."""
    found = json.loads((RESULTS / "members-vs-torch-loop.json").read_text())
    lines = [
        "| network | method | ours, ms a step | PyTorch loop, ms a step | times as fast |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        network = f"MLP {row['n_features']}-{'-'.join(map(str, row['hidden']))}"
        lines.append(
            f"| {network} | {row['method']} | {row['ours_ms']:.2f} | {row['torch_loop_ms']:.2f} | {row['ratio']:.2f} |"
        )
    versions = found["environment"]["versions"]
    lines += [
        "",
        f"Measured by `{found['command']}` on two CPU cores, {found['rows'][0]['members']} members, jax "
        f"{versions['jax']} against torch {found['torch']}, both sides in turn in one process.",
    ]
    return "\n".join(lines) + "\n"


def method_cost() -> str:
    """What a step costs under every method, relative to a standard ensemble with as many images."""
    found = json.loads((RESULTS / "method-cost.json").read_text())
    names = list(dict.fromkeys(row["method"] for part in found.values() for row in part["rows"]))
    lines = [f"| method | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for name in names:
        at = [next((row for row in part["rows"] if row["method"] == name), None) for part in found.values()]
        texts = ["–" if row is None else f"{row['to_equal_images_and_plan']:.2f} × ({row['ms']:.2f} ms)" for row in at]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    lines += [
        "",
        "A training step of ten members against the standard ensemble's with as many images a step under the same plan "
        "(milliseconds in brackets). Agree to Disagree, whole trainings and the bytes of the cached predictions:",
        "",
        "| members | " + " | ".join(found) + " |",
        f"|---|{'---|' * len(found)}",
    ]
    for rows in zip(*(part["agree_to_disagree"] for part in found.values()), strict=True):
        texts = [f"{row['seconds']:.2f} s, {row['cache_bytes']:,} B" for row in rows]
        lines.append(f"| {rows[0]['members']} | {' | '.join(texts)} |")
    commands = "; ".join(f"`{part['command']}` ({name})" for name, part in found.items())
    return "\n".join([*lines, "", f"Measured by {commands}."]) + "\n"


def dice_convergence() -> str:
    """What DICE's penalty does, by its weight."""
    lines = []
    for data, found in json.loads((RESULTS / "dice-convergence.json").read_text()).items():
        lines += [
            "| alpha | seeds with a finite loss | labels that members fit, % | accuracy % (single member) | NLL | ECE "
            "| disagreement | redundancy, nats |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for alpha, row in found["summary"].items():
            lines.append(
                f"| {alpha} | {row['seeds_finite']} of {found['seeds']} | {100 * row['train_accuracy']:.1f} "
                f"| {100 * row['accuracy']:.1f} ({100 * row['member_accuracy']:.1f}) | {row['nll']:.3f} "
                f"| {row['ece']:.3f} | {row['disagreement']:.3f} | {row['redundancy']:.2f} |"
            )
        lines += [
            "",
            f"{data}: {found['members']} members, {found['steps']} steps, {found['seeds']} seeds, by "
            f"`{found['command']}` on {found['environment']['device']}.",
            "",
        ]
    return "\n".join(lines)


def mc_dropout() -> str:
    """MC dropout against one network, by rate and number of masks."""
    found = json.loads((RESULTS / "mc-dropout-cpu.json").read_text())
    rows = [row for row in found["rows"] if row["rate"]]
    settings = list(dict.fromkeys((row["labels"], row["steps"]) for row in rows))
    heads = [f"{n} labels, {steps} steps: accuracy, points | NLL" for n, steps in settings]
    lines = [f"| rate | masks | {' | '.join(heads)} |", "|---|---|" + "---|---|" * len(settings)]
    for rate, masks in dict.fromkeys((row["rate"], row["masks"]) for row in rows):
        cells = []
        for row in (row for row in rows if (row["rate"], row["masks"]) == (rate, masks)):
            (accuracy, accuracy_error), (nll, nll_error) = row["accuracy"], row["nll"]
            cells.append(f"{100 * accuracy:+.2f} ± {100 * accuracy_error:.2f} | {nll:+.4f} ± {nll_error:.4f}")
        lines.append(f"| {rate:g} | {masks} | {' | '.join(cells)} |")
    note = f"Difference to one network, mean ± standard error over {rows[0]['splits']} splits of the digits, by "
    return "\n".join([*lines, "", f"{note}`{found['command']}`.", ""])


def demo() -> str:
    """The demo's table and verdict, as the README shows them."""
    result = DemoResult.from_dict(json.loads((RESULTS / "demo.json").read_text()), np.empty(0), np.empty(0))
    versions = result.environment["versions"]
    return (
        f"Digits, {result.settings.n_labels} labels, {result.settings.n_unlabeled} unlabelled rows, "
        f"{len(result.comparison.seeds)} splits, mean ± 95 % interval, from `{result.command}` "
        f"({result.environment['system']}, jax {versions['jax']}):\n\n{markdown_table(result)}\n"
        f"{' '.join(result.verdict)}\n\n{SETTING_PICKED}\n"
    )


def headline() -> str:
    """Table 1's standard and nu rows beside the published values, and at equal epochs."""
    results = read_results(RESULTS / "table1.json")
    lines = [
        "| 1,000 labels | Accuracy % | NLL | ECE | published ECE | ECE at equal epochs | the same, with T | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    compared = [row for row in results.rows if row.protocol == "published" and row.method in ("standard", "nu")]
    for row in compared:
        matched = results.find(row.method, (*row.place[:3], "matched"))
        assert matched is not None
        stated = published.table_value(row.dataset, row.model, row.method, "ece")
        cells = [
            results.mean(row, "accuracy").text(1, 100),
            results.mean(row, "nll").text(2),
            results.mean(row, "ece").text(3),
            f"{stated:.3f}",
            results.mean(matched, "ece").text(3),
            results.mean(matched, "ece", "scaled").text(3),
            str(sum(choice is not None for choice in results.chosen(row))),
        ]
        lines.append(f"| {row_name(row)} | {' | '.join(cells)} |")
    device = results.about["environment"]["device"]
    lines += [
        "",
        f"Mean ± 95 % interval over seeds, by `nu-ensembles study table1` on {device}. With T: after temperature "
        "scaling on the validation rows.",
    ]
    return "\n".join([*lines, ""])


def whole_trainings() -> str:
    """What it takes to get Table 1's nu rows, and how close they come to the published ones."""
    path = RESULTS / "table1.json"
    results, cells = read_results(path), json.loads(path.read_text())["cells"]
    lines = [
        "| 1,000 labels | epochs | seconds a seed | Accuracy % | published | NLL | published |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in (row for row in results.rows if row.protocol == "published" and row.method == "nu"):
        place = {"dataset": row.dataset, "model": row.model, "method": "nu", "n_train": 1000, "split": "published"}
        mine = [one for one in cells if place.items() <= one["cell"].items()]
        seconds = sorted(one["seconds"] for one in mine)
        accuracy, nll = (published.table_value(row.dataset, row.model, "nu", score) for score in ("accuracy", "nll"))
        texts = [
            str(mine[0]["cell"]["epochs"][0]),
            f"{np.median(seconds):.0f} ({seconds[0]:.0f} to {seconds[-1]:.0f})",
            results.mean(row, "accuracy").text(1, 100),
            f"{100 * accuracy:.1f}",
            results.mean(row, "nll").text(2),
            f"{nll:.2f}",
        ]
        lines.append(f"| {row_name(row)} | {' | '.join(texts)} |")
    device = results.about["environment"]["device"]
    note = f"By `nu-ensembles study table1` on {device}; scores are means ± 95 % intervals over seeds."
    return "\n".join([*lines, "", note, ""])


def readme() -> str:
    """The README with its measured tables between their marks."""
    text = README.read_text(encoding="utf-8")
    for name, table in (("demo", demo), ("headline", headline)):
        start, end = (mark.format(name) for mark in MARKS)
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = f"{before}{start}\n\n{table()}\n{end}{after}"
    return text


TABLES: dict[str, Callable[[], str]] = {
    "auto-safety.md": auto_safety,
    "digits-map.md": digits_map,
    "torch-loop.md": torch_loop,
    "method-cost.md": method_cost,
    "dice-convergence.md": dice_convergence,
    "mc-dropout.md": mc_dropout,
    "whole-trainings.md": whole_trainings,
}


if __name__ == "__main__":
    for name, table in TABLES.items():
        (HERE / "generated" / name).write_text(table(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")

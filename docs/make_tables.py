"""Writes the measured tables of the documentation and the README from the files under results/.

python docs/make_tables.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from nu_ensembles.studies.demo_result import SETTING_PICKED, DemoResult
from nu_ensembles.studies.demo_table import markdown_table

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
README = HERE.parent / "README.md"
MARKS = ("<!-- demo table: made by docs/make_tables.py -->", "<!-- end of demo table -->")


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


def step_time() -> str:
    """Step times of the published networks on a GPU."""
    found = json.loads((RESULTS / "step-time-h200.json").read_text())
    lines = ["| network | method | ms a step | compiled in, s |", "|---|---|---|---|"]
    for row in found["rows"]:
        lines.append(f"| {row['network']} | {row['method']} | {row['ms']:.2f} | {row['compile_s']:.1f} |")
    environment = found["environment"]
    lines += ["", f"Measured by `{found['command']}` on {environment['device']}, jax {environment['versions']['jax']}."]
    return "\n".join(lines) + "\n"


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


def readme() -> str:
    """The README with the demo's table between its two marks."""
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{demo()}\n{MARKS[1]}{after}"


TABLES = {
    "auto-safety.md": auto_safety,
    "digits-map.md": digits_map,
    "torch-loop.md": torch_loop,
    "step-time.md": step_time,
}


if __name__ == "__main__":
    for name, table in TABLES.items():
        (HERE / "generated" / name).write_text(table(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")

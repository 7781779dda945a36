"""Tables of benchmarks, and of whole trainings, that several pages show."""

from __future__ import annotations

import numpy as np

from makers.files import RESULTS, Maker, stored, table, with_numbers_to_the_right
from nu_ensembles_studies.declare import published
from nu_ensembles_studies.pages.names_and_cells import row_name
from nu_ensembles_studies.run.reading import read_results


def auto_safety() -> str:
    """beta="auto" against an early-stopped and a last-epoch standard ensemble, a row per data set."""
    found = stored("auto-safety")
    head = ["setting", "runs", "NLL against early-stopped", "worst", "NLL against last epoch", "worse by > 1 % NLL"]
    rows = []
    everything = [run for runs in found["runs"].values() for run in runs]
    for name, runs in [*found["runs"].items(), ("all", everything)]:
        early = np.array([run["auto_nll"] / run["early_stopped_nll"] - 1 for run in runs])
        last = np.array([run["auto_nll"] / run["last_epoch_nll"] - 1 for run in runs])
        changes = [f"{100 * change:+.1f} %" for change in (early.mean(), early.max(), last.mean())]
        n_zero = sum(run["beta"] == 0 for run in runs)
        rows.append([name, str(len(runs)), *changes, str(int((early > 0.01).sum())), str(n_zero)])
    device, versions = found["environment"]["device"], found["environment"]["versions"]
    source = f"Measured by `{found['command']}` on {device} with jax {versions['jax']}; ten members, seeds 0 and up."
    return "\n".join([*table([*head, "β = 0 chosen"], rows), "", source, ""])


def digits_map() -> str:
    """What a fixed beta does on digits, by the length of training."""
    found = stored("digits-beta-map")
    rows = [row for row in found["rows"] if row["rate"] == 3e-3 and row["unlabeled_batch"] == 32]
    steps = (100, 200, 300, 600, 1000)
    at = {(row["beta"], row["steps"]): row for row in rows}
    lines = []
    for beta in sorted({row["beta"] for row in rows}):
        cells = [at[beta, n] for n in steps]
        texts = [f"{row['ece']:.3f} / {row['nll']:.3f} / {100 * row['accuracy']:.1f}" for row in cells]
        lines.append([f"{beta:g}", *texts])
    versions, device = found["environment"]["versions"], found["environment"]["device"]
    source = (
        f"ECE / NLL / accuracy % on test rows, mean over {found['seeds']} splits, from `{found['command']}` on "
        f"{device}, jax {versions['jax']}."
    )
    return "\n".join([*table(["β", *(f"{n} steps" for n in steps)], lines), "", source, ""])


def torch_loop() -> str:
    """Ten members as one program against a PyTorch loop over members."""
    found = stored("members-vs-torch-loop")
    rows = []
    for row in found["rows"]:
        network = f"MLP {row['n_features']}-{'-'.join(map(str, row['hidden']))}"
        numbers = [f"{row[name]:.2f}" for name in ("ours_ms", "torch_loop_ms", "ratio")]
        rows.append([network, row["method"], *numbers])
    versions = found["environment"]["versions"]
    source = (
        f"Measured by `{found['command']}` on two CPU cores, {found['rows'][0]['members']} members, jax "
        f"{versions['jax']} against torch {found['torch']}, both sides in turn in one process."
    )
    head = ["network", "method", "ours, ms a step", "PyTorch loop, ms a step", "times as fast"]
    return "\n".join([*table(head, rows), "", source, ""])


def method_cost() -> str:
    """What a step costs under every method, relative to a standard ensemble with as many images."""
    found = stored("method-cost")
    lines = []
    for name in dict.fromkeys(row["method"] for part in found.values() for row in part["rows"]):
        at = [next((row for row in part["rows"] if row["method"] == name), None) for part in found.values()]
        texts = ["–" if row is None else f"{row['to_equal_images_and_plan']:.2f} × ({row['ms']:.2f} ms)" for row in at]
        lines.append([name, *texts])
    sequential = [
        [str(rows[0]["members"]), *(f"{row['seconds']:.2f} s, {row['cache_bytes']:,} B" for row in rows)]
        for rows in zip(*(part["agree_to_disagree"] for part in found.values()), strict=True)
    ]
    note = (
        "A training step of ten members against the standard ensemble's with as many images a step under the same plan "
        "(milliseconds in brackets). Agree to Disagree, whole trainings and the bytes of the cached predictions:"
    )
    commands = "; ".join(f"`{part['command']}` ({name})" for name, part in found.items())
    tables = *table(["method", *found], lines), "", note, "", *table(["members", *found], sequential)
    return "\n".join([*tables, "", f"Measured by {commands}.", ""])


def dice_convergence() -> str:
    """What DICE's penalty does, by its weight."""
    head = [
        "alpha",
        "seeds with a finite loss",
        "labels that members fit, %",
        "accuracy % (single member)",
        "NLL",
        "ECE",
    ]
    lines = []
    for data, found in stored("dice-convergence").items():
        rows = [
            [
                alpha,
                f"{row['seeds_finite']} of {found['seeds']}",
                f"{100 * row['train_accuracy']:.1f}",
                f"{100 * row['accuracy']:.1f} ({100 * row['member_accuracy']:.1f})",
                *(f"{row[name]:.3f}" for name in ("nll", "ece", "disagreement")),
                f"{row['redundancy']:.2f}",
            ]
            for alpha, row in found["summary"].items()
        ]
        source = (
            f"{data}: {found['members']} members, {found['steps']} steps, {found['seeds']} seeds, by "
            f"`{found['command']}` on {found['environment']['device']}."
        )
        lines += [*table([*head, "disagreement", "redundancy, nats"], rows), "", source, ""]
    return "\n".join(lines)


def mc_dropout() -> str:
    """MC dropout against one network, by rate and number of masks."""
    found = stored("mc-dropout-cpu")
    rows = [row for row in found["rows"] if row["rate"]]
    settings = dict.fromkeys((row["labels"], row["steps"]) for row in rows)
    heads = [text for n, steps in settings for text in (f"{n} labels, {steps} steps: accuracy, points", "NLL")]
    lines = []
    for rate, masks in dict.fromkeys((row["rate"], row["masks"]) for row in rows):
        cells = []
        for row in (row for row in rows if (row["rate"], row["masks"]) == (rate, masks)):
            (accuracy, accuracy_error), (nll, nll_error) = row["accuracy"], row["nll"]
            cells += [f"{100 * accuracy:+.2f} ± {100 * accuracy_error:.2f}", f"{nll:+.4f} ± {nll_error:.4f}"]
        lines.append([f"{rate:g}", str(masks), *cells])
    note = f"Difference to one network, mean ± standard error over {rows[0]['splits']} splits of the digits, by "
    return "\n".join([*table(["rate", "masks", *heads], lines), "", f"{note}`{found['command']}`.", ""])


def whole_trainings() -> str:
    """What it takes to get Table 1's nu rows, and how close they come to the published ones."""
    results, rows = read_results(RESULTS / "table1.json"), []
    for row in (row for row in results.rows if row.protocol == "published" and row.method == "nu"):
        place = {"dataset": row.dataset, "model": row.model, "method": "nu", "n_train": 1000, "split": "published"}
        mine = [record for cell, record in results.records.items() if place.items() <= vars(cell).items()]
        seconds = sorted(record.seconds for record in mine)
        accuracy, nll = (published.table_value(row.dataset, row.model, "nu", score) for score in ("accuracy", "nll"))
        texts = [
            str(mine[0].cell.epochs[0]),
            f"{np.median(seconds):.0f} ({seconds[0]:.0f} to {seconds[-1]:.0f})",
            results.mean(row, "accuracy").text(1, 100),
            f"{100 * accuracy:.1f}",
            results.mean(row, "nll").text(2),
            f"{nll:.2f}",
        ]
        rows.append([row_name(row), *texts])
    head = ["1,000 labels", "epochs", "seconds a seed", "Accuracy %", "published", "NLL", "published"]
    device = results.about["environment"]["device"]
    note = f"By `nu-ensembles study table1` on {device}; scores are means ± 95 % intervals over seeds."
    return "\n".join([*with_numbers_to_the_right(head, rows), "", note, ""])


MAKER = Maker(
    tables={
        "auto-safety.md": auto_safety,
        "digits-map.md": digits_map,
        "torch-loop.md": torch_loop,
        "method-cost.md": method_cost,
        "dice-convergence.md": dice_convergence,
        "mc-dropout.md": mc_dropout,
        "whole-trainings.md": whole_trainings,
    }
)

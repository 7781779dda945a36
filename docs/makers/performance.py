"""The tables of docs/performance.md from what benchmarks stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from makers.files import RESULTS, Maker
from nu_ensembles_studies.results.intervals import student_interval

Found = dict[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def source(found: Found) -> str:
    environment = found["environment"]
    where = f"{environment['cores']} CPU cores" if environment["backend"] == "cpu" else environment["device"]
    torch = f", torch {found['torch']}" if "torch" in found else ""
    return f"Measured by `{found['command']}` on {where}, jax {environment['versions']['jax']}{torch}."


def on_devices(name: str, command: str, lines_of: Callable[[Found], list[str]]) -> str:
    """The tables of a benchmark on a GPU and on a CPU, each with its source; what was not measured says so."""
    texts = []
    for device in ("h200", "cpu"):
        path = RESULTS / f"{name}-{device}.json"
        if path.exists():
            found = json.loads(path.read_text())
            texts.append("\n".join([*lines_of(found), "", source(found)]))
    return "\n\n".join(texts or [f"Not measured yet; `{command}` does it."]) + "\n"


def compiled_in(row: Found) -> str:
    """The seconds, with their range where several processes compiled."""
    if row["compile_s"] is None:
        return "–"
    each = row.get("compile_s_of_each", [])
    return f"{row['compile_s']:.1f}" + (f" ({min(each):.1f} to {max(each):.1f}, {len(each)} processes)" if each else "")


def step_time() -> str:
    """Step times of the published networks."""

    def lines(found: Found) -> list[str]:
        rows = [
            [row["network"], row["method"], f"{row['ms']:.2f}", compiled_in(row)]
            for row in sorted(found["rows"], key=lambda row: row["network"])
        ]
        return table(["network", "method", "ms a step", "compiled in, s"], rows)

    return on_devices("step-time", "python benchmarks/step_time.py", lines)


def peers() -> str:
    """Ours, every way of PyTorch, and the floor."""

    def lines(found: Found) -> list[str]:
        header = ["network", "side", "ms a step", "ours is faster by"]
        rows = []
        for row in found["rows"]:
            ours = row["ours_ms"]
            rows.append([row["network"], f"**ours**, compiled in {row['compile_s']:.1f} s", f"{ours:.2f}", ""])
            for peer, ms in sorted(row["peers_ms"].items(), key=lambda item: item[1]):
                rows.append(["", f"PyTorch, {peer}", f"{ms:.2f}", f"{ms / ours:.1f} ×"])
            rows += [["", f"PyTorch, {peer}", f"– ({reason})", ""] for peer, reason in row["missing"].items()]
        return table(header, rows)

    return on_devices("peers", "python benchmarks/peers.py", lines)


def compiler_options() -> str:
    """What XLA's options do to a step and to its compile time."""

    def lines(found: Found) -> list[str]:
        rows = []
        for row in found["rows"]:
            step = "failed" if row["ms"] is None else f"{row['ms']:.2f}"
            rows.append([row["network"], row["variant"], step, compiled_in(row)])
        return table(["network", "variant", "ms a step", "compiled in, s"], rows)

    return on_devices("compiler-options", "python benchmarks/compiler_options.py", lines)


def compiler_passes() -> str:
    """What compiling takes without the search for kernels, part by part."""

    def lines(found: Found) -> list[str]:
        header = ["network", "operations", "Python, s", "XLA's passes, s", "of them the slowest, s", "back end, s"]
        rows = []
        for row in found["rows"]:
            slowest = ", ".join(f"{name} {seconds:.2f}" for name, seconds in list(row["slowest_s"].items())[:2])
            seconds = [f"{row[part]:.2f}" for part in ("python_s", "passes_s", "back_end_s")]
            rows.append([row["network"], f"{row['operations']:,}", *seconds[:2], slowest, seconds[2]])
        return table(header, rows)

    return on_devices("compiler-passes", "python benchmarks/compiler_passes.py", lines)


def prediction() -> str:
    """How members predict on a CPU."""

    def lines(found: Found) -> list[str]:
        header = ["network", "members", "images", "way", "seconds"]
        rows = [
            [row["network"], f"{row['members']}", f"{row['images']:,}", row["way"], f"{row['seconds']:.1f}"]
            for row in found["rows"]
        ]
        return table(header, rows)

    return on_devices("prediction", "python benchmarks/prediction.py", lines)


def floors() -> str:
    """How far a step is from what the device allows."""

    def lines(found: Found) -> list[str]:
        header = ["network", "ms a step", "floor, ms", "times the floor", "GFLOP a step", "GB a step", "rates"]
        rows = []
        for row in found["rows"]:
            rates = f"{row['flops_a_second'] / 1e12:.3g} TFLOP/s, {row['bytes_a_second'] / 1e12:.2g} TB/s"
            ours, least = row["ours_ms"], row["floor_ms"]
            work = [f"{row['flops'] / 1e9:.3g}", f"{row['bytes'] / 1e9:.2g}"]
            rows.append([row["network"], f"{ours:.2f}", f"{least:.2f}", f"{ours / least:.1f}", *work, rates])
        return table(header, rows)

    return on_devices("peers", "python benchmarks/peers.py", lines)


def where_time_goes() -> str:
    """Classes of kernels, a column for each state of the code."""

    def lines(found: Found) -> list[str]:
        states = list(dict.fromkeys(row["state"] for row in found["rows"]))
        rows: list[list[str]] = []
        for network in dict.fromkeys(row["network"] for row in found["rows"]):
            at = {row["state"]: row for row in found["rows"] if row["network"] == network}
            total = [f"**{at[state]['ms']:.2f}**" if state in at else "–" for state in states]
            rows.append([network, "whole step", *total])
            for kind in next(iter(at.values()))["by_kind_ms"]:
                each = [at[state]["by_kind_ms"].get(kind, 0.0) if state in at else None for state in states]
                if any(ms is not None and ms >= 0.005 for ms in each):
                    rows.append(["", kind, *("–" if ms is None else f"{ms:.2f}" for ms in each)])
        return table(["network", "ms a step in", *states], rows)

    return on_devices("where-time-goes", "python benchmarks/where_time_goes.py", lines)


PARTS = {
    "members": "members",
    "unlabelled": "unlabelled rows",
    "batch": "labelled rows a step",
    "sequential": "members, one after another",
    "devices": "simulated CPU devices",
}


def scaling() -> str:
    """Step time and memory against members, unlabelled rows, batch and devices."""

    def lines(found: Found) -> list[str]:
        rows, most_before, own_peak = [], 0, []
        for row in found["rows"]:
            # The allocator's peak never falls: one that did not rise is that of an earlier case.
            own_peak.append((row.get("peak_bytes") or 0) > most_before)
            most_before = max(most_before, row.get("peak_bytes") or 0)
        for part, what in PARTS.items():
            of_part = [(row, own) for row, own in zip(found["rows"], own_peak, strict=True) if row["part"] == part]
            for row, own in of_part:
                ms = f"{row['ms']:.3f}" if "ms" in row else ""
                peak = row.get("peak_bytes")
                kept = row.get("bytes_kept_on_device")  # where the device reports no peak
                memory = f"{'' if own else 'at most '}{peak / 1e6:.0f}" if peak else ""
                memory = memory or (f"{kept / 1e6:.1f} kept" if kept else "")
                notes = row["plan"]
                if "collectives" in row:
                    notes += f", {row['devices_used']} used, {row['collectives']} exchanges"
                rows.append([what, row["network"], f"{row['value']:,}", ms, memory, notes])
        return table(["what grows", "network", "to", "ms a step", "peak memory, MB", "plan"], rows)

    return on_devices("scaling", "python benchmarks/scaling.py", lines)


def dtypes() -> str:
    """Scores in bfloat16 and float32, with the spread over seeds."""

    def lines(found: Found) -> list[str]:
        header = ["network", "epochs", "seeds", "score", "float32", "bfloat16", "difference of pairs, 95 % interval"]
        rows = []
        for network, epochs, score, full, half in paired_scores(found["rows"]):
            difference = student_interval(half - full).text(4, signed=True)
            rows.append([network, str(epochs), str(len(full)), score, with_spread(full), with_spread(half), difference])
        return table(header, rows)

    return on_devices("bf16-vs-float32", "python benchmarks/bf16_vs_float32.py --data-dir FOLDER", lines)


def paired_scores(rows: list[Found]) -> Iterator[tuple[str, int, str, np.ndarray, np.ndarray]]:
    """Network, epochs, score, and its values in float32 and in bfloat16 on the seeds that have both."""
    for network, epochs in dict.fromkeys((row["network"], row["epochs"]) for row in rows):
        by = {(row["dtype"], row["seed"]): row for row in rows if (row["network"], row["epochs"]) == (network, epochs)}
        seeds = sorted(seed for dtype, seed in by if dtype == "float32" and ("bfloat16", seed) in by)
        for score in ("accuracy", "ece", "nll") if seeds else ():
            full, half = (np.array([by[dtype, seed][score] for seed in seeds]) for dtype in ("float32", "bfloat16"))
            yield network, epochs, score, full, half


def gradients() -> str:
    """How far bfloat16 moves a gradient, against how far the next batch does."""

    def lines(found: Found) -> list[str]:
        header = [
            "network",
            "after",
            "a kernel's gradient is moved by bfloat16",
            "at most",
            "by the next batch",
            "at least",
        ]
        rows = []
        for row in found["rows"]:
            moved = [f"{row[field]:.1%}" for field in ("bfloat16", "bfloat16_largest")]
            moved += [f"{row[field]:.0%}" for field in ("next_batch", "next_batch_smallest")]
            rows.append([row["network"], f"{row['epochs']} epochs", *moved])
        return table(header, rows)

    return on_devices("bf16-gradients", "python benchmarks/bf16_gradients.py --data-dir FOLDER", lines)


def with_spread(values: np.ndarray) -> str:
    """Mean ± standard deviation over seeds."""
    spread = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{spread}"


def lowerings() -> str:
    """Convolutions of ten members under every lowering."""
    passes = ("forward", "input gradient", "weight gradient")

    def lines(found: Found) -> list[str]:
        names = list(dict.fromkeys(row["lowering"] for row in found["rows"]))
        rows = []
        for layer in dict.fromkeys(tuple(row["layer"]) for row in found["rows"]):
            n_in, n_out, size, kernel, stride = layer
            shape = f"{n_in} → {n_out}, {size}×{size}, {kernel}×{kernel}" + (f", stride {stride}" if stride > 1 else "")
            at = {row["lowering"]: row for row in found["rows"] if tuple(row["layer"]) == layer}
            times = {name: " / ".join(f"{row[each]:.2f}" for each in passes) for name, row in at.items()}
            rows.append([shape, *(times.get(name, "–") for name in names)])
        return table([f"ms: {' / '.join(passes)}", *names], rows)

    return on_devices("convolution-lowerings", "python benchmarks/convolution_lowerings.py", lines)


MAKER = Maker(
    tables={
        "performance-step-time.md": step_time,
        "performance-peers.md": peers,
        "performance-compiler-options.md": compiler_options,
        "performance-compiler-passes.md": compiler_passes,
        "performance-floor.md": floors,
        "performance-prediction.md": prediction,
        "performance-kernels.md": where_time_goes,
        "performance-scaling.md": scaling,
        "performance-dtypes.md": dtypes,
        "performance-gradients.md": gradients,
        "performance-lowerings.md": lowerings,
    }
)

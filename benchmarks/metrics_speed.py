"""How long scoring takes, how much memory it needs, and what other libraries take for the parts that they have.

    python benchmarks/metrics_speed.py --out results/metrics-speed.json

Ten members, 10,000 samples, 100 classes, float32. Targets: all metrics under 1 s, with 1,000 bootstrap resamples of
each under 15 s, memory under three times the input. scikit-learn is always there; torchmetrics and netcal are timed
if they are installed. None of them has TACE, a Brier decomposition, or more than one metric in a pass. Where a peer
scores the mean prediction, so do we; our times include the checks of the input.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss, mutual_info_score

from nu_ensembles import metrics
from nu_ensembles.training.run_folder import environment


def predictions(n_members: int, n_samples: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shared = 2 * rng.normal(size=(n_samples, n_classes)).astype(np.float32)
    members = np.exp(shared + rng.normal(size=(n_members, n_samples, n_classes)).astype(np.float32))
    members /= members.sum(axis=-1, keepdims=True)
    return members, (shared + rng.gumbel(size=shared.shape)).argmax(axis=1)


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The fastest of several runs: the others were disturbed."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def peers(members: np.ndarray, labels: np.ndarray) -> dict[str, dict[str, Callable[[], object]]]:
    """For each metric, what calculates it in which library."""
    mean = members.mean(axis=0, dtype=np.float64)
    mean /= mean.sum(axis=1, keepdims=True)
    classes, votes = range(mean.shape[1]), members.argmax(axis=2)

    def information() -> float:
        return float(np.mean([mutual_info_score(a, b) for a, b in itertools.combinations(votes, 2)]))

    found: dict[str, dict[str, Callable[[], object]]] = {
        "nll": {"scikit-learn": lambda: log_loss(labels, mean, labels=classes)},
        "brier": {"scikit-learn": lambda: brier_score_loss(labels, mean, labels=classes, scale_by_half=False)},
        "mutual_information": {"scikit-learn": information},
        "ece": {},
    }
    if importlib.util.find_spec("torchmetrics"):
        torch = importlib.import_module("torch")
        calibration = importlib.import_module("torchmetrics.functional.classification").multiclass_calibration_error
        tensors = torch.tensor(mean), torch.tensor(labels)
        found["ece"]["torchmetrics"] = lambda: calibration(*tensors, num_classes=mean.shape[1], n_bins=15)
    if importlib.util.find_spec("netcal"):
        measure = importlib.import_module("netcal.metrics").ECE(15).measure
        found["ece"]["netcal"] = lambda: measure(mean, labels)
    return found


def measure(n_members: int, n_samples: int, n_classes: int, n_resamples: int, repeats: int) -> list[dict[str, Any]]:
    members, labels = predictions(n_members, n_samples, n_classes)
    metrics.evaluate(members[:, :100], labels[:100], intervals=0.95, n_resamples=2)

    def plain() -> object:
        return metrics.evaluate(members, labels)

    def with_intervals() -> object:
        return metrics.evaluate(members, labels, intervals=0.95, n_resamples=n_resamples)

    n_scalars = len(metrics.evaluate(members[:, :100], labels[:100]))
    rows: list[dict[str, Any]] = [
        {"what": f"evaluate: {n_scalars} metrics", "seconds": seconds(plain, repeats)},
        {"what": f"evaluate: {n_scalars} metrics, {n_resamples} resamples", "seconds": seconds(with_intervals, 1)},
    ]
    rows[0]["memory / input"] = peak_bytes(plain) / members.nbytes
    rows[1]["memory / input"] = peak_bytes(with_intervals) / members.nbytes
    mean = members.mean(axis=0, dtype=np.float64)
    ours: dict[str, Callable[[], float]] = {
        "nll": lambda: metrics.nll(mean, labels),
        "brier": lambda: metrics.brier(mean, labels),
        "mutual_information": lambda: metrics.mutual_information(members),
        "ece": lambda: metrics.ece(mean, labels),
    }
    for name, others in peers(members, labels).items():
        rows.append({"what": name, "seconds": seconds(ours[name], repeats)})
        timed = {library: seconds(call, repeats) for library, call in others.items()}
        if timed:
            fastest = min(timed, key=lambda library: timed[library])
            rows[-1] |= {"fastest peer": fastest, "peer seconds": timed[fastest], "all peers": timed}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    options = parser.parse_args()
    shape = options.members, options.samples, options.classes
    rows = measure(*shape, options.resamples, options.repeats)
    print(f"{'':48s} {'seconds':>9s} {'memory/input':>13s}   fastest peer")
    for row in rows:
        memory = f"{row['memory / input']:13.2f}" if "memory / input" in row else " " * 13
        peer = f"{row['peer seconds']:9.4f} s {row['fastest peer']}" if "fastest peer" in row else ""
        print(f"{row['what']:48s} {row['seconds']:9.4f} {memory}   {peer}")
    if options.out:
        about = {
            "command": "python benchmarks/metrics_speed.py",
            "environment": environment() | {"cores": os.cpu_count()},
            "shape": dict(zip(("members", "samples", "classes"), shape, strict=True)),
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

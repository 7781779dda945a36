"""Milliseconds a training step of all members takes on this device, everything included.

    python benchmarks/step_time.py [--members 10] [--out results/step-time.json]

32 labelled + 32 unlabelled 32x32 images a member a step, drawn on the device, flip and crop, forward, backward,
AdamW: the published networks under the nu loss and, for comparison, the standard one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import jax
import numpy as np

import nu_ensembles as nu
from nu_ensembles.engine.assembly import Settings, label_key, member_lanes, on_device
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.run import BLOCK, Run
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Method
from nu_ensembles.runs import environment

NETWORKS = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, bfloat16": ("lenet", {"dtype": "bfloat16"}),
    "LeNet, float32": ("lenet", {"dtype": "float32"}),
    "WRN-22-4, bfloat16": ("wide_resnet", {"dtype": "bfloat16"}),
}


def step_time(name: str, options: dict[str, str], method: Method, n_members: int, steps: int) -> dict[str, float | str]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1000, 32, 32, 3), np.uint8)
    u = rng.integers(0, 256, (5000, 32, 32, 3), np.uint8)
    y = rng.integers(0, 10, 1000).astype(np.int32)
    settings, key = Settings(augment=FlipAndCrop()), random_key(0)
    targets = method.unlabeled_targets(label_key(key), len(u), 10, n_members)
    data = on_device(x, y, np.ones(1000, np.float32), u if method.uses_unlabeled else None, targets)
    program = settings.program(nu.models.build(name, 10, **options), 1000, 5000)
    plan = choose_plan("auto", method, program, data, n_members)
    groups = range(0, n_members, plan.lanes_at_once)
    start = time.perf_counter()
    lanes = member_lanes(key, range(plan.lanes_at_once), 1000, method, settings)
    run = Run(program, lanes, data, on_host=plan.on_host)
    run.advance(1)
    jax.block_until_ready(run.state)
    compiled = time.perf_counter() - start
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run.advance(run.step + steps)
        jax.block_until_ready(run.state)
        times.append((time.perf_counter() - start) / steps * 1e3 * len(groups))
    return {"plan": plan.name, "ms": statistics.median(times), "compile_s": compiled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2 * BLOCK)
    parser.add_argument("--only", help="networks whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("results/step-time.json"))
    options = parser.parse_args()
    rows = []
    for label, (name, network_options) in NETWORKS.items():
        if options.only and options.only.lower() not in label.lower():
            continue
        for method in (nu.methods.Standard(), nu.methods.Nu(0.01)):
            found = step_time(name, network_options, method, options.members, options.steps)
            rows.append({"network": label, "method": method.name, "members": options.members} | found)
            print(
                f"{label:26s} {method.name:9s} {found['ms']:8.3f} ms a step ({found['plan']}, compiled in "
                f"{found['compile_s']:.1f} s)",
                flush=True,
            )
            options.out.parent.mkdir(parents=True, exist_ok=True)
            about = {"command": "python benchmarks/step_time.py", "environment": environment()}
            options.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

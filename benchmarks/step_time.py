"""Milliseconds a training step of all members takes on this device, everything included, and seconds to compile it.

    python benchmarks/step_time.py [--members 10] [--only WRN] [--processes 5] [--quick]
                                   [--out results/step-time-DEVICE.json]

32 labelled + 32 unlabelled 32x32 images a member a step, drawn on the device, flip and crop, forward, backward,
AdamW: the published networks under the nu loss and, for comparison, the standard one. Every network runs in a fresh
process without any cache of compiled programs; its compile time is that until the first step is done (the import of
JAX, the start of the device and the choice of a plan left out) and that of the standard one, which comes second, the
same in a process where nu has run before. Compile times differ from process to process: with `--processes` more of
them compile nu, and the median is recorded beside all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NETWORKS: dict[str, tuple[str, dict[str, str]]] = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, bfloat16": ("lenet", {"dtype": "bfloat16"}),
    "LeNet, float32": ("lenet", {"dtype": "float32"}),
    "WRN-22-4, bfloat16": ("wide_resnet", {"dtype": "bfloat16"}),
    "WRN-22-4, float32": ("wide_resnet", {"dtype": "float32"}),
}
USUAL = ("MLP 784-500-300, float32", "LeNet, bfloat16", "WRN-22-4, bfloat16")
METHODS = ("nu", "standard")
# What the package does so that deep networks compile in less time; can be left out, for comparison.
SAVINGS = ("fewer trials",)


def measure(label: str, n_members: int, steps: int, methods: list[str], left_out: list[str]) -> None:
    """In the fresh process: prints a line of JSON for every method."""
    import jax

    import nu_ensembles as nu
    from nu_ensembles.diagnostics.rehearsal import Rehearsal
    from nu_ensembles.engine.augmentation import FlipAndCrop
    from nu_ensembles.engine.fast import compilation
    from nu_ensembles.engine.settings import Settings

    if "fewer trials" in left_out:
        compilation.knows_options = lambda *_: False
    name, options = NETWORKS[label]
    jax.block_until_ready(jax.numpy.zeros(1) + 1)  # the device's start
    for method in methods:
        ways = {"nu": nu.methods.Nu(0.01), "standard": nu.methods.Standard()}
        model = nu.models.build(name, 10, **options)
        rehearsal = Rehearsal(model, (32, 32, 3), ways[method], n_members, Settings(augment=FlipAndCrop()))
        rehearsal.advance(min(steps, 32))
        ms = statistics.median(rehearsal.advance(steps) for _ in range(3))
        print(
            json.dumps({"method": method, "plan": rehearsal.plan.name, "ms": ms, "compile_s": rehearsal.compile_s}),
            flush=True,
        )


def without_cache(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that finds no compiled programs, with further variables."""
    environment = {**os.environ, "NU_ENSEMBLES_COMPILATION_CACHE": "off", **variables}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    return environment


def in_a_fresh_process(
    label: str,
    n_members: int,
    steps: int,
    methods: Sequence[str],
    variables: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """What a process without a cache of compiled programs measures, line by line.

    Args:
      variables: of that process's environment, beside those of this one.
      left_out: which of `SAVINGS` the package does without.
    """
    call = [sys.executable, __file__, "--measure", label, "--members", n_members, "--steps", steps]
    call += ["--methods", *methods, "--left-out", *left_out]
    environment = without_cache(variables or {})
    with subprocess.Popen(list(map(str, call)), env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
    if process.returncode:
        raise SystemExit(f"{label} failed with exit code {process.returncode}.")


def in_fresh_processes(
    n_processes: int, label: str, n_members: int, steps: int, methods: Sequence[str], **how: Any
) -> Iterator[dict[str, Any]]:
    """What the last of several processes measures, but for nu's compile time, the median over all of them."""
    earlier = [
        found["compile_s"]
        for _ in range(n_processes - 1)
        for found in in_a_fresh_process(label, n_members, 1, ("nu",), **how)
    ]
    for found in in_a_fresh_process(label, n_members, steps, methods, **how):
        if found["method"] == "nu" and earlier:
            found["compile_s_of_each"] = [*earlier, found["compile_s"]]
            found["compile_s"] = statistics.median(found["compile_s_of_each"])
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, help="a measurement; by default 2048 on a GPU and 4 on a CPU")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--processes", type=int, default=1, help="that compile nu, one after another")
    parser.add_argument("--quick", action="store_true", help="few steps, nu only")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--left-out", nargs="*", choices=SAVINGS, default=[], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.members, options.steps, options.methods, options.left_out)
        return
    # The device stays free for the processes that measure.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    from recording import Recording

    on_gpu = jax.default_backend() != "cpu"
    options.steps = options.steps or (2048 if on_gpu else 4)
    if options.quick:
        options.steps, options.methods = min(options.steps, 16), ["nu"]
    key = ("network", "method", "members")
    recording = Recording("step-time", "python benchmarks/step_time.py", key, options.out, options.quick)
    for label in NETWORKS:
        if options.only.lower() not in label.lower() or (not on_gpu and ("WRN" in label or "bfloat16" in label)):
            continue  # too slow there to be of use
        steps = max(1, options.steps // 4) if "WRN" in label else options.steps
        for found in in_fresh_processes(options.processes, label, options.members, steps, options.methods):
            recording.add({"network": label, "members": options.members} | found)
            print(
                f"{label:26s} {found['method']:9s} {found['ms']:8.3f} ms a step ({found['plan']}, compiled in "
                f"{found['compile_s']:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""What options of XLA do to a training step on a GPU: milliseconds of a step, seconds to compile it.

    python benchmarks/compiler_options.py [--only WRN] [--variants default "convolutions in graphs"] [--quick]

Steps are those of `step_time.py` under the nu loss, every variant in a fresh process without any cache of compiled
programs. The first variant of a network tunes; those that do not change the tuning load what it chose, so that they
run the same kernels, and their compile time says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from step_time import NETWORKS

CONVOLUTIONS = "--xla_gpu_enable_command_buffer=+CONVOLUTION"
LOOPS = "--xla_gpu_enable_command_buffer=+CONVOLUTION,+WHILE"
CONCURRENT = "--xla_gpu_command_buffer_scheduling_mode=CONCURRENT"
UNROLLED = "--xla_gpu_command_buffer_unroll_loops=true"
# CUDA graphs hold everything but convolutions and loops by default; their kernels wait for each other as scheduled.
VARIANTS = {
    "default": (),
    "convolutions in graphs": (CONVOLUTIONS,),
    "concurrent kernels": (CONCURRENT,),
    "convolutions in graphs, concurrent kernels": (CONVOLUTIONS, CONCURRENT),
    "convolutions and loops in graphs": (LOOPS, UNROLLED),
    "convolutions and loops in graphs, concurrent kernels": (LOOPS, UNROLLED, CONCURRENT),
}
# What changes the choice of kernels has to choose for itself.
TUNING = {
    "outputs of tuned kernels not compared": ("--xla_gpu_autotune_level=3",),
    "tuned on memory as it is": ("--xla_gpu_autotune_level=1",),
    "not tuned": ("--xla_gpu_autotune_level=0",),
}
USUAL = ("MLP 784-500-300, float32", "LeNet, bfloat16", "WRN-22-4, bfloat16")


def measure(label: str, n_members: int, steps: int) -> None:
    """In the fresh process: prints a line of JSON."""
    import jax

    import nu_ensembles as nu
    from nu_ensembles.engine.assembly import Settings
    from nu_ensembles.engine.augmentation import FlipAndCrop
    from nu_ensembles.engine.rehearsal import Rehearsal

    name, options = NETWORKS[label]
    jax.block_until_ready(jax.numpy.zeros(1) + 1)  # the device's start
    model = nu.models.build(name, 10, **options)
    rehearsal = Rehearsal(model, (32, 32, 3), nu.methods.Nu(0.01), n_members, Settings(augment=FlipAndCrop()))
    rehearsal.advance(min(steps, 32))
    times = [rehearsal.advance(steps) for _ in range(5)]
    print(json.dumps({"ms": statistics.median(times), "compile_s": rehearsal.compile_s}), flush=True)


def rows_of(label: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The variants of a network, one after another."""
    steps = max(1, options.steps // 8) if "WRN" in label else options.steps
    call = [sys.executable, __file__, "--measure", label, "--members", options.members, "--steps", steps]
    with tempfile.TemporaryDirectory() as folder:
        tuned = Path(folder) / "tuned.txt"
        for variant in options.variants:
            flags = list(VARIANTS.get(variant, ())) + list(TUNING.get(variant, ()))
            shares = variant not in TUNING and tuned.exists()
            if shares:
                flags.append(f"--xla_gpu_load_autotune_results_from={tuned}")
            elif variant not in TUNING:
                flags.append(f"--xla_gpu_dump_autotune_results_to={tuned}")
            environment = {**os.environ, "NU_ENSEMBLES_COMPILATION_CACHE": "off", "XLA_FLAGS": " ".join(flags)}
            environment.pop("JAX_COMPILATION_CACHE_DIR", None)
            done = subprocess.run(list(map(str, call)), env=environment, capture_output=True, text=True, check=False)
            lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            if not lines:
                print(f"{label}, {variant} failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            found = lines[-1] | ({"compile_s": None} if shares else {})
            yield {"network": label, "variant": variant, "members": options.members} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, default=512, help="a measurement; a ResNet makes an eighth of them")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, *TUNING], default=[*VARIANTS, *TUNING])
    parser.add_argument("--quick", action="store_true", help="few steps")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.steps = 16
    if options.measure:
        measure(options.measure, options.members, options.steps)
        return
    # The device stays free for the processes that measure.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from recording import Recording

    key = ("network", "variant", "members")
    recording = Recording("compiler-options", "python benchmarks/compiler_options.py", key, options.out, options.quick)
    for label in USUAL:
        for row in rows_of(label, options) if options.only.lower() in label.lower() else ():
            recording.add(row)
            compiled = "" if row["compile_s"] is None else f", compiled in {row['compile_s']:.1f} s"
            print(f"{label:26s} {row['variant']:54s} {row['ms']:8.3f} ms a step{compiled}", flush=True)


if __name__ == "__main__":
    main()

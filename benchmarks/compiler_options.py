"""What options of XLA do to a training step on a GPU: milliseconds of a step, seconds to compile it.

    python benchmarks/compiler_options.py [--only WRN] [--variants default "convolutions in graphs"] [--processes 3]
                                          [--quick]

Steps are those of `step_time.py` under the nu loss, every variant in a fresh process without any cache of compiled
programs. The first variant of a network tunes; those that do not change the tuning load what it chose, so that they
run the same kernels, and their compile time says nothing. "all of cuDNN's engines" is XLA's own search, from which the
package leaves some engines out, "all kernels timed" that of all of a deep network's kernels, not of convolutions and
matrix products alone. With `--processes` compile times are medians. A variant that fails is recorded as failed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nu_ensembles.engine.fast.compilation import ENGINE_RULES
from step_time import USUAL, in_fresh_processes

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
ALL_ENGINES = "all of cuDNN's engines"
LEFT_OUT = {"all kernels timed": ("fewer trials",)}
TUNING = {
    ALL_ENGINES: (),
    **dict.fromkeys(LEFT_OUT, ()),
    "outputs of tuned kernels not compared": ("--xla_gpu_autotune_level=3",),
    "tuned on memory as it is": ("--xla_gpu_autotune_level=1",),
    "not tuned": ("--xla_gpu_autotune_level=0",),
    # Fewer kernels to choose from, found without building all of them first.
    "convolutions as cuDNN's graphs": (
        "--xla_gpu_experimental_enable_conv_fusion=true",
        "--xla_gpu_cudnn_gemm_max_plans=12",
    ),
}


def rows_of(label: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The variants of a network, one after another; one that fails has no times."""
    steps = max(1, options.steps // 4) if "WRN" in label else options.steps
    with tempfile.TemporaryDirectory() as folder:
        tuned = Path(folder) / "tuned.txt"
        for variant in options.variants:
            flags, shares = [*VARIANTS.get(variant, ()), *TUNING.get(variant, ())], False
            if variant not in TUNING:
                shares = tuned.exists()
                way = "load_autotune_results_from" if shares else "dump_autotune_results_to"
                flags.append(f"--xla_gpu_{way}={tuned}")
            n_processes = 1 if shares else options.processes
            variables = {"XLA_FLAGS": " ".join(flags)}
            if variant == ALL_ENGINES:
                variables[ENGINE_RULES] = ""
            how = {"variables": variables, "left_out": LEFT_OUT.get(variant, ())}
            try:
                (found,) = in_fresh_processes(n_processes, label, options.members, steps, ("nu",), **how)
            except SystemExit as error:
                found = {"method": "nu", "ms": None, "compile_s": None, "failed": str(error)}
            if shares:
                found["compile_s"] = None
            yield {"network": label, "variant": variant, "members": options.members} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, default=512, help="a measurement; a ResNet makes a quarter of them")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, *TUNING], default=[*VARIANTS, *TUNING])
    parser.add_argument("--processes", type=int, default=1, help="that compile a variant, one after another")
    parser.add_argument("--quick", action="store_true", help="few steps")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.steps = 16
    # The device stays free for the processes that measure.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from recording import Recording

    key = ("network", "variant", "members")
    recording = Recording("compiler-options", "python benchmarks/compiler_options.py", key, options.out, options.quick)
    for label in USUAL:
        for row in rows_of(label, options) if options.only.lower() in label.lower() else ():
            recording.add(row)
            compiled = "" if row["compile_s"] is None else f", compiled in {row['compile_s']:.1f} s"
            result = row["failed"] if row["ms"] is None else f"{row['ms']:8.3f} ms a step{compiled}"
            print(f"{label:26s} {row['variant']:54s} {result}", flush=True)


if __name__ == "__main__":
    main()

"""What compiling the training steps for an H200 takes, part by part, on a machine that need not have one.

    python benchmarks/compiler_passes.py [--members 10] [--only WRN] [--repeats 3] [--quick] [--out FILE]

Steps are those of `step_time.py` under the nu loss, with the GPU's ways chosen everywhere. Seconds in Python (the
program is traced and handed over), in XLA's passes over it, the slowest of which are named, and in its back end;
medians over fresh processes. The search for the fastest kernels needs the GPU itself and is left out (`step_time.py`
has it all). XLA's GPU compiler comes with JAX's plugin of the same version: `pip install jax-cuda13-plugin==VERSION`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from step_time import NETWORKS, USUAL, without_cache

SETTINGS = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # there is no GPU whose libraries could be checked
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "gpu_compiler=1,hlo_pass_pipeline=1",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0",
}
H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  l2_cache_size: 62914560 memory_bandwidth: 4800000000000 device_memory_size: 150754820096
}
platform_name: "CUDA" device_description_str: "NVIDIA H200" dnn_version_info { major: 9 minor: 19 }
"""
N_SLOWEST = 4


def measure(label: str, n_members: int) -> None:
    """In the fresh process: prints a line of JSON; XLA writes the times of its passes beside."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    import nu_ensembles as nu
    from nu_ensembles.diagnostics.rehearsal import random_assembly
    from nu_ensembles.engine.augmentation import FlipAndCrop
    from nu_ensembles.engine.run import Run
    from nu_ensembles.engine.settings import Settings

    name, options = NETWORKS[label]
    model, method = nu.models.build(name, 10, **options), nu.methods.Nu(0.01)
    program, lanes, data = random_assembly(model, (32, 32, 3), method, n_members, Settings(augment=FlipAndCrop()))
    # Made on the CPU; from here on it is a GPU's program.
    machine = topologies.get_topology_desc("1x1x1", "cuda", target_config=H200, topology="1x1x1")
    there = SingleDeviceSharding(machine.devices[0])
    jax.default_backend = lambda: "gpu"

    def on_gpu(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), tree)

    run = Run(program, on_gpu(lanes), on_gpu(data))
    state = on_gpu(run._state_shapes())
    start = time.perf_counter()
    (lowered,) = run._lowered_steps(state)
    python_s = time.perf_counter() - start
    lowered.compile()
    print(json.dumps({"python_s": python_s, "operations": lowered.as_text().count("stablehlo.")}))


def in_a_fresh_process(label: str, n_members: int) -> dict[str, Any]:
    call = [sys.executable, __file__, "--measure", label, "--members", str(n_members)]
    done = subprocess.run(call, env=without_cache(SETTINGS), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{label} failed:\n{done.stderr[-2000:]}")
    *_, line = (line for line in done.stdout.splitlines() if line.startswith("{"))
    log = done.stderr[done.stderr.index("jit_steps_of_a_block") :]  # small programs of the CPU's come before
    passes: dict[str, float] = {}
    for name, microseconds in re.findall(r"HLO pass: ([\w-]+) time: .*?\((\d+) us\)", log):
        passes[name] = passes.get(name, 0) + int(microseconds) / 1e6
    return json.loads(line) | {
        "passes_s": _seconds("RunHloPasses", log),
        "back_end_s": _seconds("RunBackend", log),
        "slowest_s": dict(sorted(passes.items(), key=lambda item: -item[1])[:N_SLOWEST]),
    }


def _seconds(part: str, log: str) -> float:
    (microseconds,) = re.findall(rf"GpuCompiler::{part} for jit_steps_of_a_block time: .*?\((\d+) us\)", log)
    return int(microseconds) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--repeats", type=int, default=3, help="processes, one after another")
    parser.add_argument("--quick", action="store_true", help="one process each")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.members)
        return
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from recording import Recording

    key = ("network", "members")
    recording = Recording("compiler-passes", "python benchmarks/compiler_passes.py", key, options.out, options.quick)
    for label in USUAL:
        if options.only.lower() not in label.lower():
            continue
        found = [in_a_fresh_process(label, options.members) for _ in range(1 if options.quick else options.repeats)]
        parts = {
            part: statistics.median(each[part] for each in found) for part in ("python_s", "passes_s", "back_end_s")
        }
        slowest = {
            name: statistics.median(each["slowest_s"].get(name, 0.0) for each in found)
            for name in found[0]["slowest_s"]
        }
        row = {"network": label, "members": options.members, "operations": found[0]["operations"], **parts}
        recording.add(row | {"slowest_s": slowest})
        times = ", ".join(
            f"{part.removesuffix('_s').replace('_', ' ')} {seconds:.2f} s" for part, seconds in parts.items()
        )
        named = ", ".join(f"{name} {seconds:.2f}" for name, seconds in slowest.items())
        print(f"{label:26s} {row['operations']:,} operations: {times} (slowest passes: {named})", flush=True)


if __name__ == "__main__":
    main()

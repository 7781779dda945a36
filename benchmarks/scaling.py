"""How step time and memory grow with members, unlabelled rows, batch and devices.

    python benchmarks/scaling.py [--part members|unlabelled|batch|sequential|devices] [--quick] [--out FILE]

All parts by default; each takes under 100 s on a GPU. 32 + 32 rows a member a step unless the batch is what grows,
AdamW, images flipped and cropped. Memory is the allocator's peak where the device reports one. `sequential` trains
whole ensembles member after member. `devices` runs on simulated CPU devices, whatever the machine: it shows that
members are spread and that nothing is exchanged, not a speed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

import nu_ensembles as nu
from nu_ensembles.diagnostics.rehearsal import Rehearsal, random_assembly
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import train
from recording import Recording

IMAGES, METHOD = (32, 32, 3), nu.methods.Nu(0.01)
ON_GPU = jax.default_backend() != "cpu"
PARTS = ("sequential", "members", "unlabelled", "batch", "devices")


def peak_bytes() -> int | None:
    """The most memory that was in use on the device so far; it never falls, so cases come smallest first."""
    stats = jax.devices()[0].memory_stats() if ON_GPU else None
    return None if stats is None else int(stats["peak_bytes_in_use"])


def network(name: str) -> tuple[Any, tuple[int, ...], Settings]:
    """A network, the shape of its rows and its settings."""
    if name == "mlp":
        return nu.models.mlp(10), (64,), Settings()
    options = {"dtype": "auto"} if name == "lenet" else {}
    return nu.models.build(name, 10, **options), IMAGES, Settings(augment=FlipAndCrop())


def measured(name: str, n_members: int, steps: int, n_unlabeled: int = 5000, **changes: Any) -> dict[str, Any]:
    model, row_shape, settings = network(name)
    settings = Settings(**{"augment": settings.augment, **changes})
    rehearsal = Rehearsal(model, row_shape, METHOD, n_members, settings, n_unlabeled=n_unlabeled)
    ms = statistics.median(rehearsal.advance(steps) for _ in range(3))
    return {"ms": ms, "plan": rehearsal.plan.name, "compile_s": rehearsal.compile_s, "peak_bytes": peak_bytes()}


def members(quick: bool) -> Any:
    """Step time against the number of members."""
    counts = (1, 4) if quick else (1, 2, 4, 8, 16, 32, 64)
    for name in ("mlp", "lenet") if ON_GPU or quick else ("mlp",):
        for n_members in counts if name == "mlp" or not ON_GPU else counts[::2]:
            steps = 256 if ON_GPU else (64 if name == "mlp" else 2)
            yield {"network": name, "value": n_members}, lambda n=n_members, s=steps, m=name: measured(m, n, s)


def unlabelled(quick: bool) -> Any:
    """Step time against the number of unlabelled rows; 512 steps, so that drawing their order counts."""
    for n_unlabeled in (1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000):
        yield {"network": "mlp", "value": n_unlabeled}, lambda m=n_unlabeled: measured("mlp", 10, 512, m)


def batch(quick: bool) -> Any:
    """Step time against the batch of labelled rows (and as many unlabelled ones)."""
    for name in ("mlp", "lenet") if ON_GPU else ("mlp",):
        for size in (8, 32) if quick else (8, 32, 128, 512):
            steps = 256 if ON_GPU else 32
            yield (
                {"network": name, "value": size},
                lambda b=size, s=steps, m=name: measured(m, 10, s, batch_size=b),
            )


def sequential(quick: bool) -> Any:
    """Device memory of whole trainings member after member."""
    for n_members in (1, 4) if quick else (1, 4, 16, 64):
        yield {"network": "mlp_large", "value": n_members}, lambda n=n_members: trained_one_by_one("mlp_large", n)


def trained_one_by_one(name: str, n_members: int) -> dict[str, Any]:
    model, row_shape, settings = network(name)
    assembly = random_assembly(model, row_shape, METHOD, n_members, settings)
    found = train(assembly, 16 if ON_GPU else 2, plan="sequential")
    assert found.plan.lanes_at_once == 1
    in_use = sum(array.nbytes for array in jax.live_arrays())
    return {"peak_bytes": peak_bytes(), "bytes_kept_on_device": in_use, "plan": found.plan.name}


def devices(quick: bool) -> Any:
    """Members over simulated devices, in processes of their own."""
    for n_devices in (1, 2) if quick else (1, 2, 4, 8):
        yield {"network": "mlp", "value": n_devices}, lambda n=n_devices: on_simulated_devices(n)


def on_simulated_devices(n_devices: int) -> dict[str, Any]:
    flags = f"--xla_force_host_platform_device_count={n_devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    call = [sys.executable, __file__, "--simulated"]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def simulated() -> dict[str, Any]:
    """In a process with simulated devices: eight members, spread."""
    model, row_shape, settings = network("mlp")
    rehearsal = Rehearsal(model, row_shape, METHOD, 8, settings)
    ms = statistics.median(rehearsal.advance(64) for _ in range(3))
    collectives = 0
    if rehearsal.plan.n_devices > 1:
        run = rehearsal.run
        (steps,) = run._lowered_steps(run.state)
        text = steps.compile().as_text() or ""
        collectives = len(re.findall(r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter", text))
    return {
        "ms": ms,
        "plan": rehearsal.plan.name,
        "devices_used": rehearsal.plan.n_devices,
        "collectives": collectives,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="repeat for several")
    parser.add_argument("--quick", action="store_true", help="two sizes of everything")
    parser.add_argument("--simulated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.simulated:
        print(json.dumps(simulated()))
        return
    key = ("part", "network", "value")
    recording = Recording("scaling", "python benchmarks/scaling.py", key, options.out, options.quick)
    for part in options.part or PARTS:
        for case, measure in globals()[part](options.quick):
            found = {"part": part} | case | measure()
            recording.add(found)
            ms = f"{found['ms']:9.3f} ms a step" if "ms" in found else " " * 19
            peak = found.get("peak_bytes")
            memory = f", peak {peak / 1e6:.0f} MB" if peak else ""
            others = {key: found[key] for key in ("collectives", "bytes_kept_on_device") if key in found}
            print(
                f"{part:10s} {case['network']:9s} {case['value']:8d} {ms} ({found['plan']}){memory} {others or ''}",
                flush=True,
            )


if __name__ == "__main__":
    main()

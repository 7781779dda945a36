"""Where a training step's time goes, by class of kernel: what `nu-ensembles profile` prints, kept as results.

    python benchmarks/where_time_goes.py [--only WRN] [--state now] [--quick] [--out FILE]

Ten members of the published networks, 32 labelled + 32 unlabelled 32x32 images a member a step, flip and crop, AdamW.
`--state` names the state of the code, so that a file can hold several and show a change as a waterfall.
`--events FILE` sorts kernels that were traced elsewhere instead, a JSON object with "ms" and "lines": name of a line ->
[[kernel, ms a step, calls a step], …].
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax

import nu_ensembles as nu
from nu_ensembles.diagnostics.profiling import Event, StepProfile, added_up, profile_steps
from nu_ensembles.diagnostics.rehearsal import Rehearsal
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.settings import Settings
from recording import Recording

ON_GPU: dict[str, tuple[str, dict[str, Any]]] = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, bfloat16": ("lenet", {"dtype": "bfloat16"}),
    "WRN-22-4, bfloat16": ("wrn-22-4", {"dtype": "bfloat16"}),
}
ON_CPU: dict[str, tuple[str, dict[str, Any]]] = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, float32": ("lenet", {}),
    "WRN-16-1, float32": ("wrn-16-1", {}),
}


def profiled(name: str, network_options: dict[str, Any], n_members: int, steps: int) -> StepProfile:
    model = nu.models.build(name, 10, **network_options)
    settings = Settings(augment=FlipAndCrop())
    rehearsal = Rehearsal(model, (32, 32, 3), nu.methods.Nu(0.01), n_members, settings)
    return profile_steps(rehearsal, steps, min(steps, 16))


def traced_elsewhere(path: Path) -> StepProfile:
    found = json.loads(path.read_text())
    kernels = [kernel for line in found["lines"].values() for kernel in line]
    events = [Event(name, ms * 1e6) for name, ms, _ in kernels]
    return StepProfile(found["ms"], float("nan"), added_up(events, 1), on_gpu=True)


def row_of(label: str, options: argparse.Namespace, profile: StepProfile) -> dict[str, Any]:
    return {
        "network": label,
        "members": options.members,
        "state": options.state,
        "ms": profile.ms,
        "kernel_ms": profile.kernel_ms,
        "by_kind_ms": profile.by_kind(),
        "n_kernels": sum(kernel.calls for kernel in profile.kernels),
        "largest": [[kernel.name, kernel.kind, kernel.ms, kernel.calls] for kernel in profile.kernels[:12]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--state", default="now")
    parser.add_argument("--events", type=Path, help="kernels of the network that --only names, traced elsewhere")
    parser.add_argument("--quick", action="store_true", help="few steps, two members")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = jax.default_backend() != "cpu" or options.events is not None
    steps = 256 if on_gpu else 4
    if options.quick:
        steps, options.members = 2, 2
    key = ("network", "members", "state")
    command = "python benchmarks/where_time_goes.py"
    recording = Recording("where-time-goes", command, key, options.out, options.quick)
    for label, (name, network_options) in (ON_GPU if on_gpu else ON_CPU).items():
        if options.only.lower() not in label.lower():
            continue
        if options.events is not None:
            profile = traced_elsewhere(options.events)
        else:
            profile = profiled(name, network_options, options.members, steps)
        recording.add(row_of(label, options, profile))
        print(f"{label}, {options.state}: {profile.ms:.3f} ms a step, kernels {profile.kernel_ms:.3f}", flush=True)
        for kind, ms in profile.by_kind().items():
            print(f"    {kind:24s} {ms:8.3f} ms", flush=True)


if __name__ == "__main__":
    main()

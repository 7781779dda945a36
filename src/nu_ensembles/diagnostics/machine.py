"""What the engine finds on this machine, and how it would train here: the facts behind `nu-ensembles doctor`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from nu_ensembles.engine.fast.compilation import ENGINE_RULES, MOST_BYTES, SWITCH, cache_folder
from nu_ensembles.engine.memory import free_bytes, lane_bytes
from nu_ensembles.engine.plans import Plan, choose_plan
from nu_ensembles.engine.program import TrainingData
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Nu
from nu_ensembles.models import build

# Network, options, and the shape of the rows that it was published for.
NETWORKS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "mlp": ({}, (64,)),
    "mlp_large": ({}, (32, 32, 3)),
    "lenet": ({"dtype": "auto"}, (32, 32, 3)),
    "wrn-22-4": ({"dtype": "auto"}, (32, 32, 3)),
}
# What else decides how JAX behaves; shown where it is set.
VARIABLES = (
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "CUDA_VISIBLE_DEVICES",
    ENGINE_RULES,
    SWITCH,
)


def devices() -> list[dict[str, Any]]:
    """Every device: its kind, and the bytes that a training may use on it."""
    return [
        {"platform": device.platform, "kind": device.device_kind, "free_bytes": free_bytes(device)}
        for device in jax.devices()
    ]


def compilation_cache() -> dict[str, Any]:
    """Where compiled programs are kept, how many there are, and how to change that."""
    ours, set_by_user = cache_folder(), jax.config.values.get("jax_compilation_cache_dir")
    folder = ours if set_by_user is None else Path(set_by_user)
    state = "off" if folder is None else "on"
    if folder is not None and not _writable(folder):
        state = "not writable"
    files = [path for path in folder.iterdir() if path.is_file()] if folder is not None and folder.is_dir() else []
    return {
        "state": state,
        "folder": folder,
        "chosen_by": "JAX's own setting" if folder is not None and folder != ours else SWITCH,
        "programs": sum(path.name.endswith("-cache") for path in files),
        "bytes": sum(path.stat().st_size for path in files),
        "most_bytes": MOST_BYTES,
        "switch": f"{SWITCH}=off switches it off, {SWITCH}=FOLDER moves it",
    }


def _writable(folder: Path) -> bool:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


@dataclasses.dataclass(frozen=True)
class Outlook:
    """How a built-in network would train here.

    Attributes:
      row_shape: of the rows it was looked at with.
      dtype: of its products.
      member_bytes: what one member needs while it trains, as estimated.
    """

    network: str
    row_shape: tuple[int, ...]
    dtype: str
    plan: Plan
    why: str
    member_bytes: int


def outlook(network: str, n_members: int) -> Outlook:
    """How so many members of a network would train here; nothing is computed or compiled."""
    options, row_shape = NETWORKS[network]
    model, method = build(network, 10, **options), Nu(0.01)
    program = Settings().program(model, 1000, 5000)
    # Only the shapes of rows matter to a plan.
    row = jnp.zeros((1, *row_shape))
    data = TrainingData(row, jnp.zeros(1, jnp.int32), jnp.ones(1), x_unlabeled=row)
    plan = choose_plan("auto", method, program, data, n_members)
    needed = lane_bytes(program, row_shape, with_unlabeled=True)
    chosen = dict(model.spec.options) if model.spec is not None else {}
    dtype = str(chosen.get("dtype", "float32"))
    return Outlook(network, row_shape, dtype, plan, reason(plan, n_members, len(jax.devices())), needed)


def reason(plan: Plan, n_members: int, n_devices: int) -> str:
    """Why `auto` takes this plan."""
    if plan.name == "sequential":
        cores = f", one on each of {plan.lanes_at_once} cores" if plan.lanes_at_once > 1 else ""
        return f"convolutions on a CPU are fastest member after member{cores}"
    if plan.name == "sharded":
        return f"{n_devices} devices: members are spread over {plan.n_devices} of them, nothing is exchanged"
    if plan.lanes_at_once < n_members:
        return f"only {plan.lanes_at_once} of {n_members} members fit into memory at once"
    return f"one device, and all {n_members} members fit into its memory"


def variables() -> dict[str, str]:
    """Settings of the environment that change how JAX runs."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def advice(backend: str) -> list[str]:
    """What is worth knowing about flags and precision on such a backend."""
    if backend == "cpu":
        return [
            "No XLA flag is needed; XLA_FLAGS=--xla_force_host_platform_device_count=4 simulates four devices.",
            "JAX found no GPU. If there is one, install JAX's build for it and leave JAX_PLATFORMS unset.",
        ]
    return [
        "No XLA flag is needed. If XLA itself stops the process while compiling, try "
        "XLA_FLAGS=--xla_gpu_enable_triton_gemm=false and tell us the network.",
        "JAX takes most of the device's memory at its start; XLA_PYTHON_CLIENT_PREALLOCATE=false takes it as needed.",
        "float32 products use TF32; JAX_DEFAULT_MATMUL_PRECISION=highest makes them exact.",
        f"Training leaves slow engines of cuDNN out when it looks for fast ones; an empty {ENGINE_RULES} keeps them.",
    ]

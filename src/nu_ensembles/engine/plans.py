"""How lanes run: all in one program, one after another, or spread over devices.

| plan       | what runs                                        | memory            |
|------------|--------------------------------------------------|-------------------|
| vectorised | as many lanes as fit, stacked, in one program    | grows with lanes  |
| sequential | lane after lane through one program              | that of one lane  |
| sharded    | lanes spread over the devices, nothing exchanged | lanes per device  |
| auto       | whichever of these is fastest here               |                   |

Convolutions on a CPU train lane after lane under `auto`, too, but a lane on each core (see `fast/host_steps.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from nu_ensembles.backend import Backend
from nu_ensembles.engine.fast.threads import n_cores
from nu_ensembles.engine.memory import lanes_that_fit
from nu_ensembles.engine.program import Program, TrainingData
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Method
from nu_ensembles.models.inspect import read_network

PlanName = Literal["auto", "vectorised", "sequential", "sharded"]
PLANS: tuple[str, ...] = get_args(PlanName)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A decision how to run lanes.

    Attributes:
      lanes_at_once: size of a group that trains together (over all devices).
      on_host: whether the loop over steps runs in Python.
      n_devices: over how many devices a group is spread.
    """

    name: Literal["vectorised", "sequential", "sharded"]
    lanes_at_once: int
    on_host: bool
    n_devices: int = 1

    def mesh(self) -> Mesh | None:
        """The devices as a mesh with one axis, "lanes"; None where a single device serves."""
        if self.n_devices == 1:
            return None
        devices = np.array(jax.local_devices()[: self.n_devices])
        # Explicit axes, the default of jax.make_mesh, break optax under vmap.
        return Mesh(devices, ("lanes",), axis_types=(AxisType.Auto,))


def check_plan(requested: str, method: Method) -> None:
    """Refuses a plan that the method cannot run under."""
    if method.is_sequential and requested in ("vectorised", "sharded"):
        raise InputError(
            f"{method.name!r} trains its members one after another, so it cannot run under the plan {requested!r}; "
            "use plan='auto'."
        )
    if method.is_joint and requested in ("sequential", "sharded"):
        raise InputError(
            f"{method.name!r} has one loss over all members, so they must train together; use plan='vectorised' "
            "or 'auto', or fewer members if memory is short."
        )


def choose_plan(requested: str, method: Method, program: Program, data: TrainingData, n_lanes: int) -> Plan:
    """Turns a plan's name into a decision.

    Raises:
      InputError: a plan that the method cannot run under.
    """
    check_plan(requested, method)
    # Those of other processes are theirs to use (see `processes.py`).
    device = jax.local_devices()[0]
    row_shape = tuple(data.x.shape[1:])
    convolves = read_network(program.model, row_shape, program.dtype).n_convolutions > 0
    on_host = Backend.current().convolutions_on_host and convolves
    if method.is_sequential:
        return Plan("sequential", 1, on_host)
    if method.is_joint:
        return Plan("vectorised", n_lanes, on_host)
    if requested == "sequential":
        return Plan("sequential", 1, on_host)
    n_devices = len(jax.local_devices())
    fit = lanes_that_fit(program, row_shape, data.has_unlabeled, device)
    if requested == "auto":
        if on_host:
            # A vmapped convolution on the CPU is about four times slower than lane after lane, or a lane on each core.
            return Plan("sequential", min(n_lanes, fit, n_cores()), on_host)
        requested = "sharded" if n_devices > 1 and n_lanes > 1 else "vectorised"
    if requested == "vectorised":
        return Plan("vectorised", min(n_lanes, fit), on_host)
    per_device = min(-(-n_lanes // n_devices), fit)
    n_used = min(n_devices, -(-n_lanes // per_device))
    return Plan("sharded", min(per_device * n_used, n_lanes), on_host=False, n_devices=n_used)

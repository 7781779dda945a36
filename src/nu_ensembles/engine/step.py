"""One training step of all lanes: forward, one gradient of the sum of the losses, one optimiser update.

The gradient is taken outside `vmap`: the weight gradient of a convolution is then a batch-grouped convolution
that libraries know, instead of a forward convolution with an image-sized kernel (twenty times slower on a GPU).
Independent and joint methods share this path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.engine.fast.packing import pack, unpack
from nu_ensembles.engine.finite import all_finite
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData, network_inputs
from nu_ensembles.engine.update import updated
from nu_ensembles.methods import Batch
from nu_ensembles.methods.passes import JointPass, NetworkPass

# Every use of a lane's key folds in its own number, so that no two draws share one.
ORDER, UNLABELED_ORDER, INITIALISATION, STEP, AUXILIARY = range(5)
# What is drawn from a batch's key: augmentations of labelled and of unlabelled rows, and the method's own.
BATCH_USES = LABELED, UNLABELED, METHOD = range(3)


def lane_key(key: Array, use: int | Array) -> Array:
    return jax.random.fold_in(key, use)


def make_batch(
    program: Program, data: TrainingData, member: Array, rows: Array, unlabeled_rows: Array | None, keys: Array
) -> Batch:
    """One lane's batch: gathered from the resident data, scaled, augmented; `keys`: one for each of `BATCH_USES`."""
    x = network_inputs(data.x[rows], program.dtype)
    if program.augment is not None:
        x = program.augment(keys[LABELED], x)
    if unlabeled_rows is None or data.x_unlabeled is None:
        return Batch(x, data.y[rows], data.weight[rows], key=keys[METHOD])
    u = network_inputs(data.x_unlabeled[unlabeled_rows], program.dtype)
    if program.augment_unlabeled is not None:
        u = program.augment_unlabeled(keys[UNLABELED], u)
    labels = None if data.targets is None else data.targets[member, unlabeled_rows]
    previous = None if data.previous is None else data.previous[:, unlabeled_rows]
    return Batch(x, data.y[rows], data.weight[rows], u, labels, previous, data.n_previous, keys[METHOD])


class ForwardPass(NamedTuple):
    """What a forward pass leaves behind; a tree, so that the backward pass may be a program of its own.

    losses: `[R]`.
    pull_back: a cotangent of the sum of the losses -> the gradients of the networks' and the method's own parameters.
    model_state: the networks' new mutable state.
    """

    losses: Array
    pull_back: Callable[[Array], tuple[Any, Any]]
    model_state: Any


def forward_pass(program: Program, state: LaneState, lanes: Lanes, batch: Batch, keys: Array) -> ForwardPass:
    """The lanes' losses on a batch, up to where one gradient of their sum can be taken."""

    def independent(params: Any, batch: Batch) -> tuple[Array, tuple[Array, Any]]:
        def one_lane(params: Any, model_state: Any, method: Any, batch: Batch, keys: Array) -> tuple[Array, Any]:
            forward = NetworkPass(program.model, params, model_state, *keys)
            return method.loss(forward, batch), forward.state

        losses, new_state = jax.vmap(one_lane)(params, state.model_state, lanes.method, batch, keys)
        return jnp.sum(losses), (losses, new_state)

    def joint(params: Any, batch: Batch) -> tuple[Array, tuple[Array, Any]]:
        forward = JointPass(program.model, params, state.model_state, keys[:, 0])
        method = jax.tree.map(lambda value: value[0], lanes.method)
        loss = method.loss(forward, batch)
        return loss, (jnp.full((lanes.n_lanes,), loss), forward.state)

    def objective(params: Any, auxiliary: Any) -> tuple[Array, tuple[Array, Any]]:
        together = joint if lanes.method.is_joint else independent
        return together(params, batch._replace(auxiliary=auxiliary))

    _, pull_back, (losses, new_state) = jax.vjp(objective, state.params, state.auxiliary, has_aux=True)
    return ForwardPass(losses, pull_back, new_state)


class Draws(NamedTuple):
    """What is drawn for one step: positions in each lane's row table `[R, B]`, unlabelled rows `[R, B']` or None, the
    keys of the batches `[R, 3]`, one for each of `BATCH_USES`, and of the networks `[R, 2]`, the second for the first
    pass of each.

    Keys that follow from others are drawn here, too, which leaves less to compile in the steps' program.
    """

    rows: Array
    unlabeled_rows: Array | None
    batch_keys: Array
    network_keys: Array


def packed_parameters(program: Program, state: LaneState) -> LaneState:
    """The state as the loop over steps carries it."""
    return state if program.optimiser is not None else state._replace(params=jax.vmap(pack)(state.params))


def unpacked_parameters(program: Program, carried: LaneState, like: Any) -> LaneState:
    """The state as everybody else sees it; `like`: any tree of the parameters' structure and shapes."""
    if program.optimiser is not None:
        return carried
    return carried._replace(params=jax.vmap(unpack)(carried.params, like))


def draw_batch(program: Program, lanes: Lanes, data: TrainingData, draws: Draws, step: Array) -> Batch:
    """The batches of all lanes, leaves `[R, …]`."""
    rows = jnp.take_along_axis(lanes.rows, draws.rows, axis=1)
    batch = jax.vmap(partial(make_batch, program, data))(lanes.member, rows, draws.unlabeled_rows, draws.batch_keys)
    return batch._replace(step=jnp.full(lanes.member.shape, step), n_rows=lanes.n_rows)


def train_step(
    program: Program,
    carried: LaneState,
    like: Any,
    lanes: Lanes,
    batch: Batch,
    network_keys: Array,
    step: Array,
    counts: Array | None = None,
) -> tuple[LaneState, Array]:
    """One step of all lanes.

    Args:
      carried: as `packed_parameters` gives it; like: the parameters' tree, for its structure and shapes.
      batch: of all lanes, as `draw_batch` gives it; network_keys: `[R, 2]`, as in `Draws`.
      counts: scalar bool; where false the step changes nothing. None for a step that counts.

    Returns:
      the new state and the losses `[R]`.
    """
    forward = forward_pass(program, unpacked_parameters(program, carried, like), lanes, batch, network_keys)
    return backward_pass(program, carried, lanes, forward, step, counts), forward.losses


def backward_pass(
    program: Program, carried: LaneState, lanes: Lanes, forward: ForwardPass, step: Array, counts: Array | None = None
) -> LaneState:
    """The new state after a forward pass: gradients, and the optimiser's update; arguments as in `train_step`."""
    losses, model_state = forward.losses, forward.model_state
    gradients = forward.pull_back(jnp.ones((), losses.dtype))
    if program.optimiser is None:
        gradients = jax.vmap(pack)(gradients[0]), gradients[1]

    finite = jnp.isfinite(losses) & all_finite(gradients)
    newly_failed = (carried.failed_at < 0) & ~finite
    failed_at = jnp.where(newly_failed if counts is None else newly_failed & counts, step, carried.failed_at)
    # A lane that failed stands still for good, the others go on. Masks inside the optimiser's own pass cost nothing;
    # selecting between the whole old and new state afterwards took a fifth of a step on the CPU.
    good = failed_at < 0 if counts is None else (failed_at < 0) & counts

    params, optimiser_state, *auxiliary = updated(program, carried, lanes, gradients, good, counts)
    model_state = jax.tree.map(
        lambda new, old: jnp.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old), model_state, carried.model_state
    )
    return LaneState(params, model_state, optimiser_state, failed_at, *auxiliary)

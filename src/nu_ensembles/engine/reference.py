"""Training by the book [Algorithm 1]: one member after another, one step after another, `jax.grad` and AdamW.

To be read beside the paper, and what every fast way of the engine is tested against. It draws what the engine draws,
takes a loss as its method's file writes it, and knows nothing of failures, checkpoints and memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from nu_ensembles.engine import step as engine
from nu_ensembles.engine.assembly import Assembly
from nu_ensembles.engine.batches import batch_rows
from nu_ensembles.engine.predict import lane_probabilities
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Batch
from nu_ensembles.methods.passes import JointPass, NetworkPass


class Member(NamedTuple):
    """A member on its way. weights: its network's, and the method's own; state: batch statistics and the like."""

    lane: Lanes
    weights: Any
    state: Any
    moments: Any


def train_by_the_book(assembly: Assembly, n_steps: int) -> tuple[Any, Any, np.ndarray]:
    """Parameters and mutable state of the trained networks, leaves `[K, …]`, and the losses `[K, n_steps]`."""
    program, lanes, data = assembly
    start = Run(program, lanes, data).state  # which is drawn, not trained
    weights = start.params, start.auxiliary
    moments = jax.vmap(lambda lane, own: optimiser(program, lane).init(own))(lanes, weights)
    members, losses = Member(lanes, weights, start.model_state, moments), np.zeros((lanes.n_lanes, n_steps))
    # The members of a joint method take each step together, and are one here, whose arrays have an axis more.
    for k in [slice(None)] if lanes.method.is_joint else range(lanes.n_lanes):
        member = jax.tree.map(lambda leaf, k=k: leaf[k], members)
        if lanes.method.is_sequential:
            networks, u = (members.weights[0], members.state), data.x_unlabeled
            earlier = lane_probabilities(program.model, program.dtype, *networks, u).at[k:].set(0)
            data = data._replace(previous=earlier, n_previous=k)
        for step in range(n_steps):
            member, losses[k, step] = one_step(program, data, member, step)
        members = jax.tree.map(lambda every, own, k=k: every.at[k].set(own), members, member)
    return members.weights[0], members.state, losses


@partial(jax.jit, static_argnums=0)
def one_step(program: Program, data: TrainingData, member: Member, step: Array) -> tuple[Member, Array]:
    """The member after a step, and its loss before."""
    method, network = member.lane.method, NetworkPass
    each = jax.vmap if method.is_joint else lambda function: function
    batch, key = each(partial(batch_and_key, program, data, step))(member.lane)
    if method.is_joint:
        method, network = jax.tree.map(lambda value: value[0], method), JointPass

    def loss(weights: Any) -> tuple[Array, Any]:
        forward = network(program.model, weights[0], member.state, key)
        return method.loss(forward, batch._replace(auxiliary=weights[1])), forward.state

    (value, state), gradient = jax.value_and_grad(loss, has_aux=True)(member.weights)
    update = each(lambda lane, *given: optimiser(program, lane).update(*given))
    updates, moments = update(member.lane, gradient, member.moments, member.weights)
    return Member(member.lane, optax.apply_updates(member.weights, updates), state, moments), value


def batch_and_key(program: Program, data: TrainingData, step: Array, lane: Lanes) -> tuple[Batch, Array]:
    """What a member sees in a step, and the key of its network."""
    key, network_key = jax.random.split(jax.random.fold_in(engine.lane_key(lane.key, engine.STEP), step))
    keys = jnp.stack([jax.random.fold_in(key, use) for use in engine.BATCH_USES])
    order, size, u_rows = engine.lane_key(lane.key, engine.ORDER), program.batch_size, None
    rows = lane.rows[batch_rows(order, step, 1, size, lane.n_rows, len(lane.rows), least_rows=1)[0]]
    if data.x_unlabeled is not None and data.n_unlabeled is not None:
        order, size = engine.lane_key(lane.key, engine.UNLABELED_ORDER), program.unlabeled_batch_size
        u_rows = batch_rows(order, step, 1, size, data.n_unlabeled, len(data.x_unlabeled), least_rows=1)[0]
    return engine.make_batch(program, data, lane.member, rows, u_rows, keys)._replace(
        step=step, n_rows=lane.n_rows
    ), network_key


def optimiser(program: Program, lane: Lanes) -> optax.GradientTransformation:
    """AdamW, or what the user brings, for the network's weights; the method's rule for its own."""
    of_network = program.optimiser or optax.adamw(lane.learning_rate, weight_decay=lane.weight_decay)
    own = lane.method.auxiliary_optimiser()
    return optax.multi_transform({"network": of_network, "own": own}, ("network", "own"))

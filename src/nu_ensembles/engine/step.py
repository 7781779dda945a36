"""One training step of all lanes: forward, one gradient of the sum of the losses, one optimiser update.

The gradient is taken outside `vmap`: the weight gradient of a convolution is then a batch-grouped convolution
that libraries know, instead of a forward convolution with an image-sized kernel (twenty times slower on a GPU).
Independent and joint methods share this path.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.engine.optimiser import optimiser
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData, network_inputs
from nu_ensembles.methods import Batch
from nu_ensembles.models import Model, join_variables, split_variables

# Every use of a lane's key folds in its own number, so that no two draws share one.
ORDER, UNLABELED_ORDER, INITIALISATION, STEP = range(4)
# Folded into a batch's key for the method's own draws; the two keys before it are augmentation's.
METHOD = 2


def lane_key(key: Array, use: int | Array) -> Array:
    return jax.random.fold_in(key, use)


class NetworkPass:
    """The network of one lane (or, under `jax.vmap`, of all) in training mode, keeping its mutable state."""

    def __init__(self, model: Model, params: Any, state: Any, key: Array) -> None:
        self.model, self.params, self.state, self.key = model, params, state, key
        self.n_passes = 0

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Logits of each input. They go through the network together: one large pass beats several small ones."""
        key = jax.random.fold_in(self.key, self.n_passes)
        self.n_passes += 1
        x = inputs[0] if len(inputs) == 1 else jnp.concatenate(inputs)
        output = self.model.apply(join_variables(self.params, self.state), x, key=key, train=True)
        if isinstance(output, tuple):
            logits, self.state = output
        else:
            logits = output
        ends = accumulate((len(each) for each in inputs), initial=0)
        return tuple(logits[start:end] for start, end in pairwise(ends))


class JointPass:
    """The networks of all lanes in training mode: inputs `[K, B, …]` -> logits `[K, B, C]`."""

    def __init__(self, model: Model, params: Any, state: Any, keys: Array) -> None:
        self.model, self.params, self.state, self.keys = model, params, state, keys
        self.n_passes = 0

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        def one_lane(params: Any, state: Any, key: Array, *inputs: Array) -> tuple[tuple[Array, ...], Any]:
            forward = NetworkPass(self.model, params, state, jax.random.fold_in(key, self.n_passes))
            return forward(*inputs), forward.state

        logits, self.state = jax.vmap(one_lane)(self.params, self.state, self.keys, *inputs)
        self.n_passes += 1
        return logits


def initial_state(
    model: Model,
    custom: optax.GradientTransformation | None,
    dtype: str,
    keys: Array,
    learning_rates: Array,
    weight_decays: Array,
    example: Array,
) -> LaneState:
    """Freshly initialised lanes; the arguments are those of `Program` and `Lanes` that matter here, and no others.

    Args:
      example: a row or more of network input, for the shapes.
    """

    def one_lane(key: Array, learning_rate: Array, weight_decay: Array) -> tuple[Any, Any, Any]:
        params, state = split_variables(model.init(lane_key(key, INITIALISATION), example))
        params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
        return params, state, optimiser(custom, learning_rate, weight_decay).init(params)

    params, model_state, optimiser_state = jax.vmap(one_lane)(keys, learning_rates, weight_decays)
    return LaneState(params, model_state, optimiser_state, jnp.full(keys.shape, -1, jnp.int32))


def make_batch(
    program: Program, data: TrainingData, member: Array, rows: Array, unlabeled_rows: Array | None, key: Array
) -> Batch:
    """One lane's batch: gathered from the resident data, scaled, augmented."""
    x = network_inputs(data.x[rows], program.dtype)
    keys = jax.random.split(key)
    method_key = jax.random.fold_in(key, METHOD)
    if program.augment is not None:
        x = program.augment(keys[0], x)
    if unlabeled_rows is None or data.x_unlabeled is None:
        return Batch(x, data.y[rows], data.weight[rows], key=method_key)
    u = network_inputs(data.x_unlabeled[unlabeled_rows], program.dtype)
    if program.augment_unlabeled is not None:
        u = program.augment_unlabeled(keys[1], u)
    labels = None if data.targets is None else data.targets[member, unlabeled_rows]
    previous = None if data.previous is None else data.previous[:, unlabeled_rows]
    return Batch(x, data.y[rows], data.weight[rows], u, labels, previous, data.n_previous, method_key)


def losses_and_gradients(
    program: Program, state: LaneState, lanes: Lanes, batch: Batch, keys: Array
) -> tuple[Array, Any, Any]:
    """The lanes' losses `[R]`, the gradients of their sum, and the new mutable state of the networks."""

    def independent(params: Any) -> tuple[Array, tuple[Array, Any]]:
        def one_lane(params: Any, model_state: Any, method: Any, batch: Batch, key: Array) -> tuple[Array, Any]:
            forward = NetworkPass(program.model, params, model_state, key)
            return method.loss(forward, batch), forward.state

        losses, new_state = jax.vmap(one_lane)(params, state.model_state, lanes.method, batch, keys)
        return jnp.sum(losses), (losses, new_state)

    def joint(params: Any) -> tuple[Array, tuple[Array, Any]]:
        forward = JointPass(program.model, params, state.model_state, keys)
        method = jax.tree.map(lambda value: value[0], lanes.method)
        loss = method.loss(forward, batch)
        return loss, (jnp.full((lanes.n_lanes,), loss), forward.state)

    objective = joint if lanes.method.shape == "joint" else independent
    gradients, (losses, new_state) = jax.grad(objective, has_aux=True)(state.params)
    return losses, gradients, new_state


def train_step(
    program: Program,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    rows: Array,
    unlabeled_rows: Array | None,
    step: Array,
) -> tuple[LaneState, Array]:
    """One step of all lanes.

    Args:
      rows: int32 `[R, B]`, positions in each lane's own row table.
      unlabeled_rows: int32 `[R, B']`, or None.

    Returns:
      the new state and the losses `[R]`.
    """
    step_keys = jax.vmap(lambda key: jax.random.fold_in(lane_key(key, STEP), step))(lanes.key)
    batch_keys, network_keys = jax.vmap(jax.random.split, out_axes=1)(step_keys)
    rows = jnp.take_along_axis(lanes.rows, rows, axis=1)
    batch = jax.vmap(partial(make_batch, program, data))(lanes.member, rows, unlabeled_rows, batch_keys)
    losses, gradients, model_state = losses_and_gradients(program, state, lanes, batch, network_keys)

    finite = jnp.isfinite(losses) & _all_finite(gradients)
    failed_at = jnp.where((state.failed_at < 0) & ~finite, step, state.failed_at)
    # A lane that failed stands still for good, the others go on. Masks inside the optimiser's own pass cost nothing;
    # selecting between the whole old and new state afterwards took a fifth of a step on the CPU.
    good = failed_at < 0

    def update(
        good: Array, gradients: Any, optimiser_state: Any, params: Any, rate: Array, decay: Array
    ) -> tuple[Any, Any]:
        gradients = jax.tree.map(lambda leaf: jnp.where(good, leaf, 0), gradients)
        updates, optimiser_state = optimiser(program.optimiser, rate, decay).update(gradients, optimiser_state, params)
        moved = optax.apply_updates(params, updates)
        # A parameter that would overflow stays too, so that what is kept is finite whatever the rate.
        kept = jax.tree.map(lambda new, old: jnp.where(good & jnp.isfinite(new), new, old), moved, params)
        return kept, optimiser_state

    params, optimiser_state = jax.vmap(update)(
        good, gradients, state.optimiser_state, state.params, lanes.learning_rate, lanes.weight_decay
    )
    model_state = jax.tree.map(
        lambda new, old: jnp.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old), model_state, state.model_state
    )
    return LaneState(params, model_state, optimiser_state, failed_at), losses


def _all_finite(gradients: Any) -> Array:
    """Whether all of a lane's gradients are finite, `[R]`. One sum: infinities and NaNs survive adding up."""
    sums = [jnp.sum(leaf.astype(jnp.float32).reshape(leaf.shape[0], -1), axis=1) for leaf in jax.tree.leaves(gradients)]
    return jnp.isfinite(sum(sums[1:], sums[0]))

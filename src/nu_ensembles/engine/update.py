"""The optimiser's pass over all lanes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.engine.optimiser import optimiser
from nu_ensembles.engine.program import Lanes, LaneState, Program


def updated(
    program: Program,
    carried: LaneState,
    lanes: Lanes,
    gradients: tuple[Any, Any],
    good: Array,
    counts: Array | None,
) -> tuple[Any, Any, Any, Any]:
    """Parameters, optimiser's state, and both of the method's own, after a step.

    Args:
      gradients: of the networks, as the state carries their parameters, and of the method's own parameters.
      good: bool `[R]`; a lane that is not stands still.
      counts: scalar bool; where false the step changes nothing. None for a step that counts.
    """

    def update(
        rule: optax.GradientTransformation, good: Array, gradients: Any, optimiser_state: Any, params: Any
    ) -> tuple[Any, Any]:
        gradients = jax.tree.map(lambda leaf: jnp.where(good, leaf, 0), gradients)
        updates, new_state = rule.update(gradients, optimiser_state, params)
        moved = optax.apply_updates(params, updates)
        # A parameter that would overflow stays too, so that what is kept is finite whatever the rate.
        kept = jax.tree.map(lambda new, old: jnp.where(good & jnp.isfinite(new), new, old), moved, params)
        if counts is not None:
            new_state = jax.tree.map(partial(jnp.where, counts), new_state, optimiser_state)
        return kept, new_state

    def one_lane(state: LaneState, lane: Lanes, good: Array, gradients: tuple[Any, Any]) -> tuple[Any, Any]:
        rule = optimiser(program.optimiser, lane.learning_rate, lane.weight_decay)
        network = update(rule, good, gradients[0], state.optimiser_state, state.params)
        if not lane.method.has_parameters:
            return network, (state.auxiliary, state.auxiliary_state)
        rule = lane.method.auxiliary_optimiser()
        return network, update(rule, good, gradients[1], state.auxiliary_state, state.auxiliary)

    (params, optimiser_state), auxiliary = jax.vmap(one_lane)(carried, lanes, good, gradients)
    return params, optimiser_state, *auxiliary

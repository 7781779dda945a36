"""The optimiser's pass over all lanes: gradients as it takes them, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.engine import fused_update
from nu_ensembles.engine.factors import in_factors, is_factors
from nu_ensembles.engine.optimiser import optimiser
from nu_ensembles.engine.packing import pack
from nu_ensembles.engine.program import Lanes, LaneState, Program


def gradients_of(
    program: Program, carried: LaneState, pull_back: Callable[[Array], tuple[Any, Any]], one: Array
) -> tuple[Any, Any]:
    """The gradients of the networks, as the state carries their parameters, and of the method's own parameters."""
    if program.optimiser is not None:
        return pull_back(one)
    fused = fused_update.possible() and any(map(fused_update.pays, carried.params.large))
    of_networks, of_method = in_factors(pull_back, one, fused_update.suit) if fused else pull_back(one)
    return jax.vmap(pack)(of_networks), of_method


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
      gradients: as `gradients_of` gives them.
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
        rule = lane.method.auxiliary_optimiser()
        return network, update(rule, good, gradients[1], state.auxiliary_state, state.auxiliary)

    factors = _factors_by_place(program, gradients[0])
    if not factors:
        (params, optimiser_state), auxiliary = jax.vmap(one_lane)(carried, lanes, good, gradients)
        return params, optimiser_state, *auxiliary

    # Kernels whose gradients are factors have a pass of their own; the others go the usual way without them.
    absent = dict.fromkeys(factors)
    params, (adam, *_) = carried.params, carried.optimiser_state
    rest = carried._replace(
        params=params.holding(absent), optimiser_state=_holding(carried.optimiser_state, absent, absent)
    )
    gradients = gradients[0].holding(absent), gradients[1]
    (new_params, new_state), auxiliary = jax.vmap(one_lane)(rest, lanes, good, gradients)
    weights, means, squares = {}, {}, {}
    for place, each in factors.items():
        weights[place], means[place], squares[place] = fused_update.fused_adamw(
            each,
            params.large[place],
            adam.mu.large[place],
            adam.nu.large[place],
            learning_rate=lanes.learning_rate,
            weight_decay=lanes.weight_decay,
            count=adam.count + 1,
            good=good,
            counts=counts,
        )
    return new_params.holding(weights), _holding(new_state, means, squares), *auxiliary


def _factors_by_place(program: Program, gradients: Any) -> dict[int, Any]:
    """The gradients that are factors, by their place among the large ones."""
    large = () if program.optimiser is not None else gradients.large
    return {place: leaf for place, leaf in enumerate(large) if is_factors(leaf)}


def _holding(adamw_state: Any, means: Mapping[int, Any], squares: Mapping[int, Any]) -> Any:
    """AdamW's state with other moments in some places."""
    adam, *others = adamw_state
    return adam._replace(mu=adam.mu.holding(means), nu=adam.nu.holding(squares)), *others

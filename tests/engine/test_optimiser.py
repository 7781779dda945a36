"""AdamW as published: decoupled decay, constant rate, both traced."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from nu_ensembles.engine.optimiser import optimiser


def test_the_first_step_moves_each_weight_by_the_rate_and_its_decay() -> None:
    # Adam's first step is the gradient's sign; decoupled decay subtracts rate * decay * w beside it.
    made = optimiser(None, jnp.float32(0.1), jnp.float32(0.5))
    params = jnp.array([2.0, -4.0])
    updates, _ = made.update(jnp.array([3.0, -7.0]), made.init(params), params)
    np.testing.assert_allclose(jnp.asarray(updates), [-0.1 - 0.1 * 0.5 * 2, 0.1 + 0.1 * 0.5 * 4], rtol=1e-5)


def test_it_is_optax_adamw() -> None:
    gradients = jax.random.normal(jax.random.key(0), (5, 3))
    ours, theirs = optimiser(None, jnp.float32(0.01), jnp.float32(0.1)), optax.adamw(0.01, weight_decay=0.1)
    results = []
    for made in (ours, theirs):
        params = jnp.array([1.0, -2.0, 3.0])
        state = made.init(params)
        for gradient in gradients:
            updates, state = made.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        results.append(np.asarray(params))
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_new_rates_and_decays_compile_nothing() -> None:
    @jax.jit
    def step(rate: jax.Array, decay: jax.Array) -> Any:
        made, params = optimiser(None, rate, decay), jnp.ones(2)
        return made.update(jnp.ones(2), made.init(params), params)[0]

    for rate, decay in ((0.1, 0.0), (0.2, 0.5)):
        np.testing.assert_allclose(step(rate, decay), -rate * (1 + decay), rtol=1e-5)
    assert step._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_custom_optimiser_is_used_as_it_is() -> None:
    mine = optax.sgd(0.5)
    assert optimiser(mine, jnp.float32(9.0), jnp.float32(9.0)) is mine

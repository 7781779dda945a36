"""Chains of Hamiltonian Monte Carlo that step together, what is watched of them, and how long a step takes."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from nu_ensembles.methods.losses import log_likelihood
from nu_ensembles.models import Model

# What the estimate of the time is measured on: so many rows, and so many leapfrog steps.
ROWS_TIMED, STEPS_TIMED = 512, 8
# Predictions on so many training rows, and so many weights, are watched.
WATCHED = 64


class Rows(NamedTuple):
    """The labelled rows on the device, as the network takes them."""

    x: Array
    y: Array
    weight: Array


class Chains:
    """Chains on the posterior of a network's weights, under a normal prior.

    Args:
      model: a network without mutable state.
      key: what the initial weights and the momenta are drawn from.
      n_chains: how many.
      row: one row `[1, …]`, as the network takes it.
      step_size: of a leapfrog step.
      prior_variance: of every weight.

    Attributes:
      n_weights: of the network.
      variables: of a network as it is drawn, for its structure.
      start: `[chains, P]`, the initial weights.
    """

    def __init__(
        self, model: Model, key: Array, n_chains: int, row: Array, step_size: float, prior_variance: float
    ) -> None:
        import blackjax  # pyright: ignore[reportMissingImports]

        self.model, self.key, self.n_chains = model, key, n_chains
        self.step_size, self.prior_variance = step_size, prior_variance
        drawn = [model.init(jax.random.fold_in(key, chain), row) for chain in range(n_chains)]
        self.variables = drawn[0]
        self.start = jnp.stack([ravel_pytree(each)[0] for each in drawn])
        self.n_weights = self.start.shape[1]
        self._tree = ravel_pytree(drawn[0])[1]
        self._kernel, self._init = blackjax.hmc.build_kernel(), blackjax.hmc.init
        self.move, self.begin, self.watch = map(jax.jit, (self._move, self._begin, self._watch))

    def log_density(self, w: Array, rows: Rows) -> Array:
        """Of the posterior, up to a constant, at weights `[P]`."""
        logits = self.model.apply(self._tree(w), rows.x, key=None, train=False)
        fit = jnp.sum(rows.weight * log_likelihood(logits, rows.y))
        return fit - jnp.sum(w**2) / (2 * self.prior_variance)

    def _begin(self, w: Array, rows: Rows) -> Any:
        return jax.vmap(lambda each: self._init(each, partial(self.log_density, rows=rows)))(w)

    def _move(self, state: Any, rows: Rows, number: Array, n_steps: Array) -> tuple[Any, Array]:
        """The chains after a trajectory of so many leapfrog steps, and how probable its acceptance was, `[chains]`."""

        def one(key: Array, state: Any) -> tuple[Any, Array]:
            log_p = partial(self.log_density, rows=rows)
            state, info = self._kernel(key, state, log_p, self.step_size, jnp.ones(self.n_weights), n_steps)
            return state, info.acceptance_rate

        key = jax.random.fold_in(jax.random.fold_in(self.key, self.n_chains), number)
        return jax.vmap(one)(jax.random.split(key, self.n_chains), state)

    def _watch(self, state: Any, rows: Rows) -> tuple[Array, Array]:
        """Probabilities on some rows and some weights, `[chains, …]`."""

        def one(w: Array) -> tuple[Array, Array]:
            logits = self.model.apply(self._tree(w), rows.x[:WATCHED], key=None, train=False)
            return jax.nn.softmax(logits).ravel(), w[:WATCHED]

        return jax.vmap(one)(state.position)

    def seconds_a_step(self, rows: Rows) -> float:
        """Of a leapfrog step of all chains on all rows, extrapolated from some steps on some of the rows."""
        few = jax.tree.map(lambda leaf: leaf[:ROWS_TIMED], rows)
        state = self.begin(self.start, few)
        arguments = state, few, jnp.array(0), jnp.array(STEPS_TIMED)
        jax.block_until_ready(self.move(*arguments))  # compiles
        began = time.perf_counter()
        jax.block_until_ready(self.move(*arguments))
        return (time.perf_counter() - began) / STEPS_TIMED * max(1.0, len(rows.y) / ROWS_TIMED)


def mixing(visited: np.ndarray, diagnostics: Any) -> dict[str, float | None]:
    """R-hat and effective sample size of numbers that every chain visited, `[chains, samples, numbers]`.

    Returns:
      the median and the largest R-hat, and the median and the smallest effective sample size; None where one chain, or
      numbers that never moved, tell nothing.
    """
    moving = visited[..., np.ptp(visited, axis=(0, 1)) > 0].astype(np.float64)
    told: dict[str, float | None] = dict.fromkeys(("r_hat_median", "r_hat_largest", "ess_median", "ess_smallest"))
    if not moving.size:
        return told
    if len(moving) > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            r_hat = np.asarray(diagnostics.potential_scale_reduction(moving))
            ess = np.asarray(diagnostics.effective_sample_size(moving))
        told |= {"r_hat_median": finite(np.median(r_hat)), "r_hat_largest": finite(np.max(r_hat))}
        told |= {"ess_median": finite(np.median(ess)), "ess_smallest": finite(np.min(ess))}
    return told


def finite(value: Any) -> float | None:
    """The number, or None where it is none: a chain that stood still has no spread to divide by."""
    return float(value) if np.isfinite(value) else None


def in_words(minutes: float) -> str:
    """A duration with its unit."""
    for size, unit in ((60 * 24 * 365, "years"), (60 * 24, "days"), (60, "hours")):
        if minutes >= 2 * size:
            return f"{minutes / size:,.0f} {unit}"
    return f"{minutes:,.1f} minutes"

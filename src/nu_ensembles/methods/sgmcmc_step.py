"""One step of stochastic-gradient MCMC on a mean loss: how far, and with how much noise.

  c_t = (1 + cos(pi r_t)) / 2,   r_t = (t mod S) / S,   S steps a cycle                     (Zhang et al., 2020, eq. 1)
  SGLD, SGHMC:       v <- (1 - a) v - c_t l (g + z),         w <- w + v
  symplectic Euler:  v <- (1 - a c_t) v - c_t l (g + z),     w <- w + c_t v                 (Wenzel et al., 2020)
  z ~ N(0, 2 a T / (c_t l n))

g is the gradient of the mean loss over n rows and of |w|² / 2 times the weight decay, l the learning rate, a the
friction (1 minus the momentum decay) and T the temperature. With h = sqrt(l / n), gamma = a sqrt(n / l) and momentum
v / h the second is a step of size h c_t with friction gamma and unit mass. With c_t = 1 both are the same, and with
a = 1 they are Langevin dynamics.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

Integrator = Literal["sgld", "symplectic_euler"]


class Sampler(NamedTuple):
    """The numbers of a sampler.

    Attributes:
      integrator: which of the two steps.
      learning_rate: l, the largest of a cycle.
      friction: a, above 0 and at most 1.
      weight_decay: of the loss; n times it is the precision of the prior.
      cycle: S, the steps of a cycle; None for c_t = 1 throughout.
      exploration: share of a cycle, from its start, that has no noise.
    """

    integrator: Integrator = "sgld"
    learning_rate: float = 0.5
    friction: float = 1.0
    weight_decay: float = 0.0
    cycle: int | None = None
    exploration: float = 0.0

    def factor(self, step: Array) -> Array:
        """c_t."""
        return jnp.ones(()) if self.cycle is None else (1 + jnp.cos(jnp.pi * self.place(step))) / 2

    def place(self, step: Array) -> Array:
        """r_t, in [0, 1)."""
        return jnp.zeros(()) if self.cycle is None else (step % self.cycle) / self.cycle

    def noise(self, step: Array, temperature: Array | float, n_rows: Array | float) -> Array:
        """The standard deviation of z."""
        variance = 2 * self.friction * temperature / (self.factor(step) * self.learning_rate * n_rows)
        return jnp.where(self.place(step) >= self.exploration, jnp.sqrt(variance), 0)


class SamplerState(NamedTuple):
    """How many steps were done, and v."""

    step: Array
    velocity: Any


@functools.cache
def sampler_step(sampler: Sampler) -> optax.GradientTransformation:
    """The step as an optimiser, to which z comes as a part of the gradient. Equal samplers share one object."""

    def init(params: Any) -> SamplerState:
        return SamplerState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, SamplerState]:
        c = sampler.factor(state.step)
        symplectic = sampler.integrator == "symplectic_euler"
        kept = 1 - sampler.friction * (c if symplectic else 1.0)

        def moved(v: Array, g: Array, w: Array) -> Array:
            return kept * v - c * sampler.learning_rate * (g + sampler.weight_decay * w)

        velocity = jax.tree.map(moved, state.velocity, updates, params)
        steps = jax.tree.map(lambda v: c * v, velocity) if symplectic else velocity
        return steps, SamplerState(state.step + 1, velocity)

    return optax.GradientTransformation(init, update)

"""PAC²: a second-order PAC-Bayes bound on the NLL of the averaged prediction, minimised by all members together.

  mean over members and Z of -log p_k(y)  -  beta * mean over Z of  c * Var_k[r_k],   r_k = 0.9999 p_k(y)

The variance is what Jensen's inequality wastes: members may spread at no cost to the bound. c is a lower bound on
the curvature of the logarithm, 1/2 or the tight h of Liao and Berg (*Sharpening Jensen's Inequality*, 2019), and
carries no gradient. The prior on the weights is the optimiser's weight decay.

Masegosa, *Learning under Model Misspecification: Applications to Variational and Ensemble Methods*, 2020.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_coefficient, check_name
from nu_ensembles.methods.losses import log_likelihood
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Shape, method

Pac2Variant = Literal["h1", "tight", "as_published"]

# Masegosa's margin: keeps the mean below its upper bound of 1, where h is a quotient of two zeros.
LOG_MARGIN = math.log(0.9999)
# h grows as 1/mean and r² falls as mean²: below this their product is of no account, and h stays a float32.
LEAST_LOG_RATIO = -40.0
# (n - 1) / n! for n = 13 … 2: enough for float64 down to d = -1/2.
SERIES = tuple((n - 1) / math.factorial(n) for n in range(13, 1, -1))


@method("beta")
class Pac2(BaseMethod):
    """The PAC² ensemble.

    Attributes:
      variant: "h1": c = 1/2.
        "tight": c = h(log mean_k p_k), never less. Masegosa's script divides that mean by K twice, and its value falls
        below what it should bound; this is the corrected one.
        "as_published": what the nu-ensembles paper compares with under the name Masegosa. Its terms are added, not
        subtracted, so that it is a penalty on confidence: `published_penalty`.
      beta: weight of the variance; 1 is the bound.
    """

    variant: Pac2Variant = "h1"
    beta: float = 1.0

    name: ClassVar[str] = "pac2"
    shape: ClassVar[Shape] = "joint"
    uses_unlabeled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_coefficient("beta", self.beta, "1 is the bound, 0 leaves out the variance")
        check_name(self.variant, "variant of pac2", get_args(Pac2Variant))

    def loss(self, forward: Forward, batch: Batch) -> Array:
        batch = batch.on_the_same_rows()
        (logits,) = forward(batch.x)
        log_p = log_likelihood(logits, batch.y)
        if self.variant == "as_published":
            return jnp.mean(batch.weight * (-log_p + self.beta * published_penalty(log_p)))
        curvature = 0.5 if self.variant == "h1" else jensen_h(log_mean(log_p) + LOG_MARGIN)
        return -jnp.mean(batch.weight * (log_p + self.beta * variance_shares(log_p, curvature)))


def variance_shares(log_p: Array, curvature: Array | float) -> Array:
    """Every member's share of the variance term, `c (r_k² - r_k mean_j r_j)`; their mean is `c Var_k[r_k]`.

    Args:
      log_p: log-likelihoods `[K, B]`.
      curvature: c, a number or `[B]`.

    Returns:
      `[K, B]`.
    """
    r = jnp.exp(log_p + LOG_MARGIN)
    return jax.lax.stop_gradient(curvature) * r * (r - jnp.mean(r, axis=0))


def published_penalty(log_p: Array) -> Array:
    """`q_k² + q_k sum_j q_j` with `q_k = p_k min_j p_j`, the minimum without gradient: `[K, B]` -> `[K, B]`."""
    q = jnp.exp(log_p + jax.lax.stop_gradient(jnp.min(log_p, axis=0)))
    return q * (q + jnp.sum(q, axis=0))


def log_mean(log_p: Array) -> Array:
    """`log mean_k p_k`: `[K, ...]` -> `[...]`."""
    return jax.nn.logsumexp(log_p, axis=0) - math.log(len(log_p))


def jensen_h(log_ratio: Array) -> Array:
    """`h(d) = d / (1 - e^d)² + 1 / (e^d (1 - e^d))` for `d = log(mean / max) <= 0`: 1/2 at d = 0, and larger below.

    The two terms nearly cancel near 0: at d = -1e-4 float32 would be left without a digit. On one fraction bar,
    h = (d e^d - (e^d - 1)) / ((e^d - 1)² e^d), and the numerator is the sum of d^n (n - 1) / n! from n = 2.
    """
    d = jnp.clip(log_ratio, LEAST_LOG_RATIO, -1e-6)
    drop = jnp.expm1(d)
    series = d**2 * jnp.polyval(jnp.asarray(SERIES, d.dtype), d, unroll=len(SERIES))
    numerator = jnp.where(d > -0.5, series, d * jnp.exp(d) - drop)
    return numerator / (drop**2 * jnp.exp(d))

"""Particles that follow a gradient flow towards a density: where each of them should go.

  WGD:   v_i = s_i - grad log q(z_i)                                      s_i = grad log p(z_i), q estimated from the z
  SVGD:  v_i = 1/K sum_j [ k(z_j, z_i) s_j + grad_{z_j} k(z_j, z_i) ]     (Liu and Wang, 2016)

with k(z, z') = exp(-|z - z'|² / 2 h), h = median |z_i - z_j|² / (2 ln(K + 1)). With G_i = sum_j grad_{z_j} k(z_j, z_i),
which is -sum_j grad_{z_i} k(z_i, z_j), the estimates of grad log q are

  KDE:   -G_i / sum_j k(z_i, z_j)
  SGE:   -((k + eta I)^-1 G)_i                                            (Li and Turner, 2018)
  SSGE:  the same through the largest eigenvalues of k alone              (Shi, Sun and Zhu, 2018)

D'Angelo and Fortuin, *Repulsive Deep Ensembles are Bayesian*, 2021, section 3, compare all of these.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Flow = Literal["wgd", "svgd"]
ScoreEstimator = Literal["kde", "sge", "ssge"]

# Of SGE: what is added to the diagonal of k, whose entries there are 1. Of SSGE: the share of the sum of the
# eigenvalues that those in use have at least. The papers leave both to the user; with these, fifty particles come to
# rest with five sixths of a normal distribution's variances, with a ridge of 1 or a share of 0.95 with less than two
# thirds (`tests/methods/test_particles.py`).
RIDGE, SHARE_OF_EIGENVALUES = 0.1, 0.99


def direction(
    particles: Array, scores: Array, flow: Flow, estimator: ScoreEstimator, repulsion: Array | float
) -> Array:
    """Where the particles go.

    Args:
      particles: `[K, D]`.
      scores: `[K, D]`, the gradient of log p at each.
      estimator: of grad log q, under "wgd".
      repulsion: times what drives the particles apart; 1 is the flow towards p.

    Returns:
      `[K, D]`.
    """
    if flow == "wgd":
        return scores - repulsion * density_score(particles, estimator)
    k, pushed = kernel_and_gradient(particles)
    return (k @ scores + repulsion * pushed) / len(particles)


def density_score(particles: Array, estimator: ScoreEstimator) -> Array:
    """The gradient of log q at the particles that are its sample, `[K, D]`.

    Args:
      particles: `[K, D]`.
    """
    k, pushed = kernel_and_gradient(particles)
    if estimator == "kde":
        return -pushed / jnp.sum(k, axis=1, keepdims=True)
    if estimator == "sge":
        return -jnp.linalg.solve(k + RIDGE * jnp.eye(len(k), dtype=k.dtype), pushed)
    values, vectors = jnp.linalg.eigh(k)
    # Ascending: the last one always counts, and each other as long as those above it lack some of the share.
    above = jnp.cumsum(values[::-1])[::-1] - values
    used = above < SHARE_OF_EIGENVALUES * jnp.sum(values)
    inverse = jnp.where(used, 1 / jnp.where(used, values, 1), 0)
    return -vectors @ (inverse[:, None] * (vectors.T @ pushed))


def kernel_and_gradient(particles: Array) -> tuple[Array, Array]:
    """k `[K, K]` and G `[K, D]`, the sum of its gradients: what pushes each particle away from the others."""
    # Far from the origin, differences of squares would keep no digits of small distances.
    centred = particles - jnp.mean(particles, axis=0)
    squared = squared_distances(centred)
    bandwidth = median_bandwidth(squared)
    k = jnp.exp(-squared / (2 * bandwidth))
    pushed = (jnp.sum(k, axis=1, keepdims=True) * centred - k @ centred) / bandwidth
    return k, pushed


def squared_distances(particles: Array) -> Array:
    """`|z_i - z_j|²`, `[K, D] -> [K, K]`."""
    gram = jnp.matmul(particles, particles.T, precision=jax.lax.Precision.HIGHEST)
    norms = jnp.diagonal(gram)
    return jnp.maximum(norms[:, None] + norms[None, :] - 2 * gram, 0)


def median_bandwidth(squared: Array) -> Array:
    """h, from the squared distances `[K, K]` of different particles; 1 where all particles are the same."""
    n_particles = len(squared)
    if n_particles < 2:
        return jnp.ones((), squared.dtype)
    median = jnp.median(squared[np.triu_indices(n_particles, k=1)])
    return jnp.where(median > 0, median, 1) / (2 * np.log(n_particles + 1))

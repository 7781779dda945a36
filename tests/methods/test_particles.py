"""Particle flows: kernels by hand, estimates of known scores, and the moments of where particles come to rest."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.methods import particles
from nu_ensembles.methods.particles import median_bandwidth

# Compiling takes all the time here, less of it without optimisation.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

density_score = quick_jit(particles.density_score, static_argnums=1)
direction = quick_jit(particles.direction, static_argnums=(2, 3))
kernel_and_gradient = quick_jit(particles.kernel_and_gradient)
MEAN, COVARIANCE = jnp.array([1.0, -2.0]), jnp.array([[1.0, 0.5], [0.5, 2.0]])
CENTRES = jnp.array([[-2.0, 0.0], [2.0, 0.0]])
FLOWS = [("wgd", "sge"), ("wgd", "ssge"), ("svgd", "kde")]


def normal_score(z: jax.Array) -> jax.Array:
    return -z


def correlated_score(z: jax.Array) -> jax.Array:
    return -(z - MEAN) @ jnp.linalg.inv(COVARIANCE)


def mixture_score(z: jax.Array) -> jax.Array:
    """Of two normal distributions of equal weight around (-2, 0) and (2, 0), with variance 1/2 in both directions."""
    return jax.vmap(jax.grad(lambda p: jax.nn.logsumexp(-jnp.sum((p - CENTRES) ** 2, axis=1))))(z)


@partial(jax.jit, static_argnums=(0, 2, 3))
def at_rest(score: Any, started: jax.Array, flow: Any, estimator: Any) -> jax.Array:
    def step(_: int, z: jax.Array) -> jax.Array:
        rate = 0.1 if flow == "wgd" else 1.0
        return z + rate * particles.direction(z, score(z), flow, estimator, 1.0)

    return jax.lax.fori_loop(0, 600, step, started)


def start(n_particles: int, n_dimensions: int = 2) -> jax.Array:
    return jax.random.normal(jax.random.key(0), (n_particles, n_dimensions))


def moments(found: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    z = np.asarray(found)
    return z.mean(axis=0), np.cov(z.T, bias=True)


def test_the_kernel_of_three_points_by_hand() -> None:
    # Squared distances 1, 4 and 9: the median is 4, h = 4 / (2 ln 4), so k at the median distance is 1/4.
    z = jnp.array([[0.0], [1.0], [3.0]])
    k, pushed = kernel_and_gradient(z)
    kernel = np.array([[1, 4**-0.25, 4**-2.25], [4**-0.25, 1, 0.25], [4**-2.25, 0.25, 1]])
    np.testing.assert_allclose(k, kernel, rtol=1e-5)
    h = 2 / math.log(4)
    by_hand = [sum(kernel[i, j] * float(z[i, 0] - z[j, 0]) / h for j in range(3)) for i in range(3)]
    np.testing.assert_allclose(pushed[:, 0], by_hand, rtol=1e-5)
    # Far from the origin nothing changes.
    np.testing.assert_allclose(kernel_and_gradient(z + 4096)[0], kernel, rtol=1e-5)


def test_particles_at_one_place_and_a_single_particle_are_pushed_nowhere() -> None:
    for z in (jnp.ones((3, 2)), jnp.ones((1, 2))):
        assert (np.asarray(density_score(z, "kde")) == 0).all()
        assert np.isfinite(direction(z, -z, "svgd", "kde", 1.0)).all()
    assert float(median_bandwidth(jnp.zeros((2, 2)))) == pytest.approx(1 / (2 * math.log(3)))


def test_the_estimates_for_two_points_by_hand() -> None:
    # k is 1/3 at the only distance, h = 4 / (2 ln 3), and G = (1/3) (-2, 2) / h.
    z, push = jnp.array([[-1.0], [1.0]]), 2 / 3 * math.log(3) / 2
    scores = {name: np.asarray(density_score(z, name))[:, 0] for name in ("kde", "sge", "ssge")}  # pyright: ignore[reportArgumentType]
    # (-1, 1) is an eigenvector of k: to the eigenvalue 2/3, and of what is solved in SGE to 2/3 + 1/10.
    for name, divided_by in {"kde": 4 / 3, "sge": 2 / 3 + 0.1, "ssge": 2 / 3}.items():
        np.testing.assert_allclose(scores[name], [push / divided_by, -push / divided_by], rtol=1e-5)


@pytest.mark.parametrize(("n_dimensions", "median_of_chi_squared"), [(1, 0.4549), (2, 1.3863)])
def test_a_kernel_density_is_wider_than_its_particles_by_the_bandwidth(
    n_dimensions: int, median_of_chi_squared: float
) -> None:
    # The density at rest is the target's: variance v + h = 1 with h = 2 v median / (2 ln(K + 1)).
    _, found = moments(at_rest(normal_score, start(50, n_dimensions), "wgd", "kde"))
    expected = 1 / (1 + median_of_chi_squared / math.log(51))
    np.testing.assert_allclose(np.atleast_2d(found), expected * np.eye(n_dimensions), atol=0.12)


@pytest.mark.parametrize(("flow", "estimator"), FLOWS)
def test_particles_have_the_moments_of_a_normal_distribution(flow: str, estimator: str) -> None:
    mean, covariance = moments(at_rest(correlated_score, start(50), flow, estimator))
    np.testing.assert_allclose(mean, MEAN, atol=0.02)
    # Fifty particles under one bandwidth fall short of the variances by about a sixth.
    np.testing.assert_allclose(covariance, COVARIANCE, atol=0.4)
    assert np.trace(covariance) > 0.8 * 3


@pytest.mark.parametrize(("flow", "estimator"), FLOWS)
def test_particles_have_the_moments_of_a_mixture(flow: str, estimator: str) -> None:
    found = at_rest(mixture_score, 2 * start(50), flow, estimator)
    right = np.asarray(found[:, 0] > 0)
    assert 0.3 < right.mean() < 0.7
    # Within a mode: the particles that belong to it, whatever share of all those are.
    for mode, centre in ((right, 2.0), (~right, -2.0)):
        mean, covariance = moments(found[mode])
        np.testing.assert_allclose(mean, [centre, 0], atol=0.15)
        np.testing.assert_allclose(np.diag(covariance), [0.5, 0.5], atol=0.2)


def test_without_repulsion_particles_fall_into_the_modes() -> None:
    z = start(20)
    moved = direction(z, normal_score(z), "wgd", "kde", 0.0)
    np.testing.assert_array_equal(moved, -z)

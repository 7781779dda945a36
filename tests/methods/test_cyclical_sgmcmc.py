"""Cyclical SG-MCMC: the schedule by hand, the variance at a temperature, 25 modes, and the samples of a network."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, ColdPosterior, CyclicalSGMCMC
from nu_ensembles.methods.cyclical_sgmcmc import NoisyLoss
from nu_ensembles.methods.sgmcmc_step import Sampler, sampler_step


@partial(jax.jit, static_argnums=(0, 1, 3, 4, 5))
def chain(slope: Any, sampler: Sampler, start: jax.Array, n_steps: int, temperature: float, every: int) -> jax.Array:
    """Where a chain on a density with one row is after every so many steps; slope: the gradient of -log p."""
    step_of: Any = sampler_step(sampler)
    key = jax.random.key(0)

    def one(carry: Any, step: jax.Array) -> tuple[Any, jax.Array]:
        w, state = carry
        z = sampler.noise(step, temperature, 1.0) * jax.random.normal(jax.random.fold_in(key, step), w.shape)
        updates, state = step_of.update(slope(w) + z, state, w)
        return (w + updates, state), w + updates

    def some(carry: Any, number: jax.Array) -> tuple[Any, jax.Array]:
        carry, visited = jax.lax.scan(one, carry, number * every + jnp.arange(every))
        return carry, visited[-1]

    return jax.lax.scan(some, (start, step_of.init(start)), jnp.arange(n_steps // every))[1]


def test_the_schedule_by_hand() -> None:
    sampler = Sampler("sgld", learning_rate=0.5, cycle=4, exploration=0.5)
    steps = jnp.arange(6)
    np.testing.assert_allclose(sampler.factor(steps), [1, 0.853553, 0.5, 0.146447, 1, 0.853553], rtol=1e-5)
    # No noise in the first half of a cycle; then 2 a T / (c l n) with a = 1, T = 1/10, l = 0.5, n = 10.
    np.testing.assert_allclose(
        sampler.noise(steps, 0.1, 10.0), [0, 0, math.sqrt(0.08), math.sqrt(0.04 / 0.146447), 0, 0], rtol=1e-5
    )


@pytest.mark.parametrize("integrator", ["sgld", "symplectic_euler"])
def test_one_step_by_hand(integrator: Any) -> None:
    rule: Any = sampler_step(Sampler(integrator, learning_rate=0.1, friction=0.25, weight_decay=0.5, cycle=4))
    w = jnp.array([2.0])
    first, state = rule.update(jnp.array([3.0]), rule.init(w), w)
    np.testing.assert_allclose(first, [-0.1 * (3 + 0.5 * 2)], rtol=1e-6)
    second, _ = rule.update(jnp.array([3.0]), state, w)
    c = (1 + math.cos(math.pi / 4)) / 2
    kept = 1 - 0.25 * (c if integrator == "symplectic_euler" else 1)
    expected = kept * -0.4 - c * 0.4
    np.testing.assert_allclose(second, [expected * (c if integrator == "symplectic_euler" else 1)], rtol=1e-5)


@pytest.mark.parametrize(
    ("sampler", "temperature"),
    [
        (Sampler("sgld", 0.05), 1.0),
        (Sampler("sgld", 0.02, friction=0.1), 0.3),
        (Sampler("symplectic_euler", 0.02, friction=0.02), 1.0),
        (Sampler("symplectic_euler", 0.02, friction=0.1), 0.1),
    ],
)
def test_a_gaussians_variance_at_a_temperature(sampler: Sampler, temperature: float) -> None:
    """U = w² / 2 with half the 1 from the weight decay: N(0, T), within 5 %, from 2000 chains at five times."""
    sampler = sampler._replace(weight_decay=0.5)
    found = np.asarray(chain(lambda w: 0.5 * w, sampler, jnp.zeros(2000), 2500, temperature, 500))
    assert np.var(found[1:]) == pytest.approx(temperature, rel=0.05)
    assert np.mean(found[1:]) == pytest.approx(0, abs=0.05)


MODES = jnp.array([(a, b) for a in (-4.0, -2, 0, 2, 4) for b in (-4.0, -2, 0, 2, 4)])


def slope_of_25_modes(w: jax.Array) -> jax.Array:
    """Of -log of 25 normal distributions of equal weight with standard deviation 0.2."""
    return -jax.grad(lambda w: jnp.sum(jax.nn.logsumexp(-jnp.sum((w[:, None] - MODES) ** 2, -1) / 0.08, axis=1)))(w)


def test_cycles_visit_more_of_25_modes_than_constant_steps_do() -> None:
    def visited(sampler: Sampler) -> tuple[int, np.ndarray]:
        found = np.asarray(chain(slope_of_25_modes, sampler, jnp.zeros((4, 2)), 20_000, 1.0, 25))
        squared = ((found[:, :, None] - np.asarray(MODES)) ** 2).sum(-1)
        # In the low-temperature part of a cycle only: the last tenth.
        late = np.arange(len(found)) % 20 >= 18 if sampler.cycle else np.full(len(found), True)
        nearest = squared[late].argmin(axis=-1)
        return len(np.unique(nearest)), np.sqrt(squared[late].min(axis=-1))

    cyclical, distances = visited(Sampler("sgld", 0.09, cycle=500, exploration=0.25))
    constant, _ = visited(Sampler("sgld", 0.005))
    assert cyclical >= 23
    assert constant <= 10
    # Within a mode the distance has the mean of a Rayleigh distribution, 0.2 sqrt(pi / 2) = 0.25.
    assert np.mean(distances) == pytest.approx(0.25, abs=0.05)


class Line:
    """A network whose only weight is its logit."""

    def __init__(self, w: jax.Array) -> None:
        self.params = w

    def __call__(self, *inputs: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(x * self.params for x in inputs)

    def at(self, params: Any) -> Line:
        return Line(params)


def test_the_gradient_of_the_loss_has_the_noise_and_its_value_does_not() -> None:
    sampler = Sampler("sgld", 0.5)
    x, y = jnp.ones((1, 2)), jnp.array([0])

    @jax.jit
    def loss_and_slope(key: jax.Array, temperature: float) -> tuple[jax.Array, jax.Array]:
        batch = Batch(x, y, jnp.ones(1), key=key, step=jnp.array(0), n_rows=jnp.array(50))
        return jax.value_and_grad(lambda w: NoisyLoss(sampler, temperature).loss(Line(w), batch))(jnp.zeros(2))

    losses, slopes = jax.vmap(lambda key: loss_and_slope(key, 0.1))(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_allclose(losses, math.log(2), rtol=1e-6)
    np.testing.assert_allclose(slopes.mean(axis=0), [-0.5, 0.5], atol=0.01)
    # 2 T / (l n) = 0.2 / 25
    np.testing.assert_allclose(slopes.var(axis=0), [0.008, 0.008], rtol=0.1)


def test_samples_are_taken_in_the_last_part_of_every_cycle() -> None:
    assert CyclicalSGMCMC().samples_at(400, 4) == [100, 200, 300, 400]
    # Three of ten members in each of the last two cycles.
    assert CyclicalSGMCMC().samples_at(400, 10) == [95, 100, 195, 200, 294, 297, 300, 394, 397, 400]
    assert CyclicalSGMCMC(cycles=2, exploration=0.5).samples_at(10, 4) == [4, 5, 9, 10]
    assert CyclicalSGMCMC(integrator="symplectic_euler").samples_at(3, 4) == [1, 2, 3]


def test_defaults_are_those_of_the_papers() -> None:
    assert CyclicalSGMCMC().sampler(400) == ("sgld", 0.5, 1.0, 5e-4, 100, 0.9)
    assert CyclicalSGMCMC(integrator="symplectic_euler").sampler(400) == ("symplectic_euler", 0.1, 0.02, 5e-4, 100, 0.0)


@pytest.mark.parametrize("integrator", ["sgld", "symplectic_euler"])
def test_it_trains_saves_and_loads(blobs, tmp_path: Path, integrator: Any) -> None:
    x, y, _ = blobs
    method = CyclicalSGMCMC(integrator=integrator, learning_rate=0.05)
    ensemble = nu.fit(nu.models.mlp(3, hidden=(16,)), x, y, method=method, n_members=5, steps=80)
    assert ensemble.n_members == 5
    assert ensemble.training["procedure"]["temperature"] == 1 / 40
    members = ensemble.predict_members(x)
    assert np.mean(members.mean(axis=0).argmax(axis=-1) == y) > 0.6
    assert len(np.unique(members[:, 0, 0])) == 5
    ensemble.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_members(x), members)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cycles": 0}, "cycles must be a whole number of at least 1, not 0"),
        ({"integrator": "sgd"}, r"Unknown integrator 'sgd'\. Did you mean 'sgld'"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, not 0"),
        ({"friction": 2}, "friction is 1 minus the momentum decay, above 0 and at most 1, not 2"),
        ({"exploration": 1}, "exploration must be a number of at least 0 and below 1, not 1"),
        ({"temperature": -1}, "temperature must be a number of at least 0, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CyclicalSGMCMC(**options)


def test_an_optimizer_of_ones_own_is_refused(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match="The steps of 'cyclical_sgmcmc' are its own; leave the optimizer out"):
        nu.fit("mlp", x, y, method="cyclical_sgmcmc", n_members=2, steps=1, optimizer=optax.sgd(0.1))


def test_a_cold_posterior_is_sampled_by_the_symplectic_euler_method_with_the_papers_numbers() -> None:
    assert ColdPosterior().sampler(400) == CyclicalSGMCMC(integrator="symplectic_euler").sampler(400)
    assert ColdPosterior().sampler(400) == Sampler("symplectic_euler", 0.1, 0.02, 5e-4, 100, 0.0)
    assert CyclicalSGMCMC().sampler(400) == Sampler("sgld", 0.5, 1.0, 5e-4, 100, 0.9)

"""Losses and gradients against float64 evaluations of the formulas and the published training step."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.methods import Batch, Method, Nu, Standard

GOLDEN = Path(__file__).parents[1] / "golden" / "losses"
CASES = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["cases"]
# "values: rtol 1e-5; gradients: max abs error below 1e-5 times the largest entry; a little looser for the flat and
# the identical case"
LOOSER = {"loss_09_k3_c10_identical": 3.0, "loss_11_k5_c3_flat": 3.0}


def load(case: str) -> tuple[dict[str, np.ndarray], dict[str, list[float]], float]:
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return arrays, CASES[case]["expected"], CASES[case]["hyperparameters"]["beta"]


@functools.cache
def found(case: str) -> tuple[Array, Array, tuple[Array, Array]]:
    """Losses `[K]` of Standard and Nu, and Nu's gradients, for networks that look their logits up."""
    arrays, _, beta = load(case)
    labels, random_labels = jnp.asarray(arrays["labels"]), jnp.asarray(arrays["random_labels"])

    def losses(method: Method, x: Array, u: Array) -> Array:
        def of_one_member(x: Array, u: Array, random_labels: Array) -> Array:
            return method.loss(lambda *inputs: inputs, Batch(x, labels, jnp.ones(len(labels)), u, random_labels))

        return jax.vmap(of_one_member)(x, u, random_labels)

    @jax.jit
    def all_at_once(x: Array, u: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        gradients = jax.grad(lambda x, u: losses(Nu(beta), x, u).sum(), argnums=(0, 1))(x, u)
        return losses(Standard(), x, u), losses(Nu(beta), x, u), gradients

    return all_at_once(arrays["logits_labeled"], arrays["logits_unlabeled"])


@pytest.mark.parametrize("case", CASES)
def test_standard_is_the_cross_entropy_of_each_member(case: str) -> None:
    standard, _, _ = found(case)
    np.testing.assert_allclose(standard, load(case)[1]["ce_per_member"], rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_nu_is_the_papers_objective_without_the_weight_decay_of_the_optimiser(case: str) -> None:
    _, expected, _ = load(case)
    decay = CASES[case]["hyperparameters"]["gamma"] * np.array(expected["l2_norm_sq_per_member"])
    _, nu, _ = found(case)
    np.testing.assert_allclose(nu, expected["nu_objective_per_member"] - decay, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_published_training_step(case: str) -> None:
    arrays, _, _ = load(case)
    _, _, gradients = found(case)
    for gradient, name in zip(gradients, ("nu_grad_labeled", "nu_grad_unlabeled"), strict=True):
        allowed = 1e-5 * LOOSER.get(case, 1.0) * np.abs(arrays[name]).max()
        assert np.abs(np.asarray(gradient) - arrays[name]).max() < allowed

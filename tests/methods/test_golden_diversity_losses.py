"""Agree to Disagree, PAC² and PAC²B against float64 evaluations and the gradients of the published codes.

Every value goes through the method's own `loss`, on networks that look their logits up. Terms that belong to the
optimiser here (priors on the weights) are added by the tests.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.methods import AgreeToDisagree, Batch, Pac2, Pac2B
from nu_ensembles.methods.losses import log_likelihood
from nu_ensembles.methods.pac2 import LOG_MARGIN, jensen_h, log_mean, variance_shares

GOLDEN = Path(__file__).parents[1] / "golden" / "losses"
CASES = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["cases"]
# Each golden gradient is known to within so much of its largest entry.
GRADIENT_TOLERANCE = 1e-5
# Every case has shapes of its own, so compiling takes all the time: a quarter of it without optimisation.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Case:
    """A case's arrays, expected values and hyper-parameters, and what our methods make of them.

    sequential: variant -> totals `[K]` of all members, and the gradients with respect to each member's own logits.
    joint: golden name -> loss of all members together, and the gradients with respect to all logits.
    bounds: golden name -> PAC²'s loss.
    shares: golden name -> shares `[K, B]` of the members and points in PAC²'s variance; "log_p", their likelihoods.
    """

    def __init__(self, name: str) -> None:
        with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as stored:
            self.arrays = {key: stored[key] for key in stored.files}
        self.expected: dict[str, Any] = CASES[name]["expected"]
        self.hyper: dict[str, Any] = CASES[name]["hyperparameters"]
        self.labels = jnp.asarray(self.arrays["labels"])

        @quick_jit
        def everything(x: Array, u: Array) -> tuple[dict[str, Any], dict[str, Any], dict[str, Array], dict[str, Array]]:
            return self._sequential(x, u), *self._joint(x, u), self._shares(x)

        found = everything(self.arrays["logits_labeled"], self.arrays["logits_unlabeled"])
        self.sequential, self.joint, self.bounds, self.shares = found

    def _sequential(self, x: Array, u: Array) -> dict[str, tuple[Array, tuple[Array, Array]]]:
        everyone = jax.nn.softmax(u)

        def total(method: AgreeToDisagree, x: Array, u: Array, number: Array) -> Array:
            is_earlier = (jnp.arange(len(everyone)) < number)[:, None, None]
            previous = jnp.where(is_earlier, everyone, 0)
            batch = Batch(x, self.labels, jnp.ones(len(self.labels)), u, previous=previous, n_previous=number)
            return method.loss(lambda *inputs: inputs, batch)

        totals = jax.vmap(jax.value_and_grad(total, argnums=(1, 2)), in_axes=(None, 0, 0, 0))
        variants = ("v1", "v2", "as_published")
        return {each: totals(AgreeToDisagree(self.hyper["alpha"], each), x, u, jnp.arange(len(u))) for each in variants}

    def _joint(self, x: Array, u: Array) -> tuple[dict[str, tuple[Array, tuple[Array, Array]]], dict[str, Array]]:
        beta = self.hyper["beta_p2b"]
        methods: dict[str, Any] = {
            "masegosa_as_coded": Pac2("as_published", self.hyper["mylambda"]),
            "pac2b": Pac2B(),
            "pac2b_unsupervised_argmax": Pac2B("argmax", beta),
            "pac2b_unsupervised_expected": Pac2B("expected", beta),
        }
        bounds = {"pac2_h1": Pac2(), "pac2_tight_corrected": Pac2("tight")}
        labels = jnp.tile(self.labels, (len(x), 1))

        def loss(method: Any, x: Array, u: Array) -> Array:
            batch = Batch(x, labels, jnp.ones(labels.shape), u if method.uses_unlabeled else None)
            return method.loss(lambda *inputs: (x, u)[: len(inputs)], batch)

        with_gradients = jax.value_and_grad(loss, argnums=(1, 2))
        return (
            {name: with_gradients(method, x, u) for name, method in methods.items()},
            {name: loss(method, x, u) for name, method in bounds.items()},
        )

    def _shares(self, x: Array) -> dict[str, Array]:
        log_p = log_likelihood(x, jnp.tile(self.labels, (len(x), 1)))
        log_ratio = log_mean(log_p) + LOG_MARGIN
        return {
            "log_p": log_p,
            "pac2_h1": variance_shares(log_p, 0.5),
            "pac2_tight_corrected": variance_shares(log_p, jensen_h(log_ratio)),
            "pac2_tight_as_coded": variance_shares(log_p, jensen_h(log_ratio - math.log(len(x)))),
        }

    def assert_gradient(self, found: Array, name: str) -> None:
        expected = self.arrays[name]
        # A gradient that vanishes in exact arithmetic is rounding in float32.
        allowed = GRADIENT_TOLERANCE * np.abs(expected).max() + 1e-7
        assert np.abs(np.asarray(found) - expected).max() < allowed


case_of = functools.cache(Case)

# Few and many classes, certain members, equal members; the other cases differ in shape alone and are compiled anew.
OFTEN = ("loss_02_k5_c10", "loss_05_k2_c2", "loss_08_k4_c10_confident", "loss_09_k3_c10_identical")
every_case = pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in CASES]
)


@every_case
@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_agree_to_disagree_has_the_values_and_gradients_of_its_authors(case: str, variant: str) -> None:
    known = case_of(case)
    totals, (on_labelled, on_unlabelled) = known.sequential[variant]
    expected = known.expected[f"dbat_{variant}"]
    np.testing.assert_allclose(totals, expected["total"], rtol=1e-5)
    diversity = (np.asarray(totals, np.float64) - expected["erm"]) / known.hyper["alpha"]
    # What float32 leaves of a difference of totals.
    rounding = 2e-7 * np.max(expected["total"]) / known.hyper["alpha"]
    np.testing.assert_allclose(diversity, expected["diversity"], rtol=1e-5, atol=rounding)
    known.assert_gradient(on_labelled, f"dbat_{variant}_grad_labeled")
    known.assert_gradient(on_unlabelled, f"dbat_{variant}_grad_unlabeled")


@every_case
def test_agree_to_disagree_as_published_is_what_the_nu_ensembles_authors_trained(case: str) -> None:
    known = case_of(case)
    totals, (on_labelled, on_unlabelled) = known.sequential["as_published"]
    assert float(totals[-1]) == pytest.approx(known.expected["a2d_as_coded_by_paper_authors_last_member"], rel=1e-5)
    known.assert_gradient(on_labelled[-1], "a2d_as_coded_grad_labeled")
    known.assert_gradient(on_unlabelled[-1], "a2d_as_coded_grad_unlabeled")


@every_case
@pytest.mark.parametrize("name", ["pac2_h1", "pac2_tight_corrected"])
def test_pac2_is_the_bound_without_its_constant_and_its_prior(case: str, name: str) -> None:
    known = case_of(case)
    value = float(known.bounds[name])
    n_members, n_train, params = known.hyper["K"], known.hyper["n_train"], known.arrays["params"].astype(np.float64)
    log_prior = -0.5 * np.sum(params**2 + math.log(2 * math.pi))
    outside = (2 * math.log(n_members) - log_prior) / n_train
    assert outside == pytest.approx(known.expected["pac2_prior_and_entropy_terms"], rel=1e-6)
    assert value + outside == pytest.approx(known.expected[name], rel=1e-5)
    slack = known.expected["bound_minus_ensemble_nll"][name]
    assert value - known.expected["ensemble_nll"] == pytest.approx(slack, rel=1e-5, abs=1e-6)


@every_case
@pytest.mark.parametrize("name", ["pac2_h1", "pac2_tight_corrected", "pac2_tight_as_coded"])
def test_every_members_share_of_pac2s_variance(case: str, name: str) -> None:
    known = case_of(case)
    expected = np.array(known.expected[f"{name}_variance_per_member"])
    # Shares of members that hardly differ are differences of nearly equal numbers.
    np.testing.assert_allclose(np.mean(known.shares[name], axis=1), expected, rtol=1e-5, atol=2e-7)


@every_case
def test_masegosas_script_differs_from_the_corrected_bound_by_its_second_log_k_only(case: str) -> None:
    known = case_of(case)
    constant = known.expected["pac2_prior_and_entropy_terms"]
    value = -float(np.mean(known.shares["log_p"] + known.shares["pac2_tight_as_coded"]))
    assert value + constant == pytest.approx(known.expected["pac2_tight_as_coded"], rel=1e-5)


@every_case
def test_pac2_as_published_is_what_the_nu_ensembles_authors_trained(case: str) -> None:
    known = case_of(case)
    value, (gradient, _) = known.joint["masegosa_as_coded"]
    assert float(value) == pytest.approx(known.expected["masegosa_as_coded_by_paper_authors"], rel=1e-5)
    known.assert_gradient(gradient, "masegosa_as_coded_grad_labeled")


@every_case
@pytest.mark.parametrize("name", ["pac2b", "pac2b_unsupervised_argmax", "pac2b_unsupervised_expected"])
def test_pac2b_has_the_values_and_gradients_of_its_authors_without_the_penalty_on_weights(case: str, name: str) -> None:
    known = case_of(case)
    value, (on_labelled, on_unlabelled) = known.joint[name]
    penalty = known.hyper["l2"] * 0.5 * np.sum(known.arrays["params"].astype(np.float64) ** 2)
    assert penalty == pytest.approx(known.expected["pac2b_l2_term"], rel=1e-6)
    assert float(value) + penalty == pytest.approx(known.expected[name], rel=1e-5)
    known.assert_gradient(on_labelled, f"{name}_grad_labeled")
    if name != "pac2b":
        known.assert_gradient(on_unlabelled, f"{name}_grad_unlabeled")


@every_case
def test_the_variance_term_is_what_pac2b_takes_off_the_mean_cross_entropy(case: str) -> None:
    known = case_of(case)
    value = float(known.joint["pac2b"][0])
    taken_off = known.expected["ce_mean"] - value
    assert taken_off == pytest.approx(known.expected["pac2b_variance_term"], rel=1e-5, abs=1e-6)
    slack = known.expected["bound_minus_ensemble_nll"]["pac2b"]
    assert value - known.expected["ensemble_nll"] == pytest.approx(slack, rel=1e-5, abs=1e-6)

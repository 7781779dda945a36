"""Theorem 1 term by term, as printed and corrected, and the lemmas that decide between the two."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles import theory
from nu_ensembles.errors import InputError

LOSS = theory.BoundedLoss(4.0)
ARGUMENTS = {
    "member_nll": [0.2, 0.4],
    "variance": 0.02,
    "squared_norms": [100.0, 300.0],
    "n_parameters": 50,
    "n_labeled": 1000,
    "n_unlabeled": 5000,
    "loss": LOSS,
}
probability = st.floats(0.0, 1.0)


def test_the_printed_bound_is_the_printed_formula():
    terms = theory.bound(**ARGUMENTS, gamma=0.5, delta=0.1, version="as_printed")
    ln_a, psi = theory.log_normaliser(50), 0.5**2 * 1000 * 4.0**2 / 8

    def h(squared_norm):
        labelled = squared_norm + ln_a + 2 * math.log(1 / 0.1) + 2 * psi
        unlabelled = squared_norm + ln_a + 2 * math.log(2 * math.sqrt(5000) / 0.1)
        return labelled / (0.5 * 1000) + unlabelled / (0.5 * 5000)

    assert terms.training_nll == pytest.approx(0.3)
    assert terms.variance == pytest.approx(-(1 - 0.25) * 0.02)
    assert terms.complexity == pytest.approx((h(100.0) + h(300.0)) / 2)
    assert terms.total == pytest.approx(0.3 - 0.015 + (h(100.0) + h(300.0)) / 2)


def test_the_corrected_bound_is_the_derived_formula():
    terms = theory.bound(**ARGUMENTS, gamma=0.5, gamma_variance=1.5, delta=0.1, n_grid=10)
    kl = 200.0 + theory.log_normaliser(50) - math.log(2)
    psi = 0.5**2 * 1000 * 4.0**2 / 8
    labelled = (kl + math.log(10 / (0.1 / 2)) + psi) / (0.5 * 1000)
    unlabelled = (2 * kl + math.log(2 * math.sqrt(5000) / (0.1 / 2))) / (4 * 1.5 * 5000)
    assert terms.complexity == pytest.approx(labelled + unlabelled)
    assert terms.variance == pytest.approx(-(1 - 0.75) * 0.02)
    assert terms.complexity == pytest.approx(terms.norm + terms.precision + terms.confidence + terms.moment)


def test_averaging_over_members_does_not_multiply_the_confidence_by_their_number():
    def with_members(K, version):
        of_members = {**ARGUMENTS, "member_nll": [0.3] * K, "squared_norms": [200.0] * K}
        return theory.bound(**of_members, version=version)

    assert with_members(20, "as_printed").moment == pytest.approx(20 * with_members(1, "as_printed").moment)
    assert with_members(20, "corrected").moment == pytest.approx(with_members(1, "corrected").moment)
    assert with_members(20, "corrected").confidence < with_members(1, "corrected").confidence


def test_one_member_shows_that_the_printed_union_bound_spends_delta_twice():
    single = {**ARGUMENTS, "member_nll": [0.3], "squared_norms": [200.0]}
    printed = theory.bound(**single, version="as_printed").confidence
    n, m = 1000, 5000
    assert printed == pytest.approx(math.log(20) / n + math.log(2 * math.sqrt(m) * 20) / m)
    assert math.log(40) / n + math.log(2 * math.sqrt(m) * 40) / m > printed


@given(probability, probability)
def test_the_printed_pair_loss_goes_below_zero_and_the_corrected_one_stays_in_range(p, q):
    assert -0.25 <= p**2 - p * q <= 1.0
    assert 0.0 <= (p - q) ** 2 <= 1.0


def test_the_printed_pair_loss_reaches_minus_a_quarter():
    assert 0.5**2 - 0.5 * 1.0 == -0.25


@given(st.lists(probability, min_size=1, max_size=6))
def test_a_quarter_of_the_squared_difference_of_pairs_is_the_variance_term(values):
    p = np.array(values)
    pairs = (p[:, None] - p[None, :]) ** 2
    printed = p[:, None] ** 2 - p[:, None] * p[None, :]
    assert pairs.mean() / 4 == pytest.approx(0.5 * p.var(), abs=1e-12)
    assert printed.mean() / 2 == pytest.approx(0.5 * p.var(), abs=1e-12)


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999), st.floats(0.01, 1.99))
def test_the_lower_bound_follows_from_the_small_kl(observed, true, gamma):
    kl = observed * math.log(observed / true) + (1 - observed) * math.log((1 - observed) / (1 - true))
    assert true >= (1 - gamma / 2) * observed - kl / gamma - 1e-12


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_the_variance_may_be_taken_off_the_mean_nll(values):
    p = np.array(values)
    assert -math.log(p.mean()) <= -np.log(p).mean() - 0.5 * p.var() + 1e-12


def test_the_kl_of_distinct_members_has_the_logarithm_of_their_number():
    # rho is uniform on K points, pi gives each exp(-|w|²)/A
    weights, a = np.array([0.5, 1.0, 2.0]), 7.0
    prior = np.exp(-(weights**2)) / a
    kl = sum(math.log((1 / 3) / mass) / 3 for mass in prior)
    assert kl == pytest.approx(np.mean(weights**2) + math.log(a) - math.log(3))


def test_the_best_bound_beats_every_gamma_on_its_grid():
    grid = (0.05, 0.1, 0.3, 1.0, 1.9)
    best = theory.best_bound(grid, **ARGUMENTS)
    others = [
        theory.bound(**ARGUMENTS, gamma=g, gamma_variance=h, n_grid=len(grid)).total
        for g in grid
        for h in np.linspace(0.02, 1.99, 60)
    ]
    others += [theory.bound(**ARGUMENTS, gamma=g, gamma_variance=1.0, n_grid=5, use_variance=False).total for g in grid]
    assert best.gamma in grid
    assert best.total <= min(others) + 1e-12


@given(st.integers(2, 30), st.floats(0.01, 1.99), st.floats(0.001, 0.999), st.integers(1, 10**5), st.integers(8, 10**5))
def test_with_several_members_and_a_fixed_gamma_the_printed_bound_is_never_the_smaller_one(K, gamma, delta, n, m):
    sizes = {"n_labeled": n, "n_unlabeled": m, "member_nll": [0.3] * K, "squared_norms": [2.0] * K}
    of_both = [
        theory.bound(**{**ARGUMENTS, **sizes}, gamma=gamma, delta=delta, version=version).total
        for version in ("as_printed", "corrected")
    ]
    assert of_both[0] >= of_both[1]


def test_variance_that_costs_more_than_it_brings_is_left_out():
    large = {**ARGUMENTS, "n_parameters": 10_000}
    best = theory.best_bound(**large)
    assert best.variance == 0.0
    assert best.total < theory.bound(**large, gamma=best.gamma, gamma_variance=1.999, n_grid=33).total
    rich = {**ARGUMENTS, "n_parameters": 1, "squared_norms": [1.0, 1.0], "n_unlabeled": 10**6}
    assert theory.best_bound(**rich).variance < 0.0


def test_a_network_of_usual_size_gets_a_vacuous_bound_and_a_tiny_one_does_not():
    mlp = {**ARGUMENTS, "n_parameters": 100_000}
    assert theory.best_bound(**mlp).vacuous(n_classes=10)
    tiny = {**ARGUMENTS, "n_parameters": 5, "squared_norms": [5.0, 5.0], "n_labeled": 20_000, "n_unlabeled": 50_000}
    assert not theory.best_bound(**tiny).vacuous(n_classes=10)
    assert not theory.best_bound(**tiny).vacuous(n_classes=2**70)  # ln c is 48.5
    with pytest.raises(InputError, match="n_classes must be a whole number of at least 1"):
        theory.best_bound(**tiny).vacuous(n_classes=-3)


def test_bounds_hold_for_a_small_family_of_known_predictors():
    # 41 coins stand for finite-precision weights; A is their own normaliser, so the theorem applies exactly
    rng = np.random.default_rng(0)
    weights = np.linspace(-2, 2, 41)
    log_a = math.log(np.exp(-(weights**2)).sum())
    heads = np.clip(0.5 + 0.2 * weights, 0.1, 0.9)
    true, n, m, delta, gamma = 0.7, 200, 400, 0.2, 0.5
    failures = 0
    for _ in range(200):
        z, u = rng.random(n) < true, rng.random(m) < true
        losses = -np.log(np.where(z[:, None], heads, 1 - heads)).mean(axis=0)
        chosen = np.argsort(losses)[:3]
        of_u = np.where(u[:, None], heads[chosen], 1 - heads[chosen])
        kl = np.mean(weights[chosen] ** 2) + log_a - math.log(3)
        width = math.log(0.9 / 0.1)
        right = losses[chosen].mean() - (1 - gamma / 2) * 0.5 * of_u.var(axis=1).mean()
        right += (kl + math.log(2 / delta) + theory.BoundedLoss(width).psi(gamma, n)) / (gamma * n)
        right += (2 * kl + math.log(4 * math.sqrt(m) / delta)) / (4 * gamma * m)
        mean = heads[chosen].mean()
        failures += -(true * math.log(mean) + (1 - true) * math.log(1 - mean)) > right
    assert failures <= 0.2 * 200


@pytest.mark.parametrize(
    ("loss", "psi"), [(theory.BoundedLoss(4.0), 0.25 * 100 * 16 / 8), (theory.SubGaussianLoss(2.0), 0.25 * 100 * 4 / 2)]
)
def test_psi_follows_from_the_assumption(loss, psi):
    assert loss.psi(0.5, 100) == pytest.approx(psi)


def test_the_bounded_psi_bounds_the_moment_of_bernoulli_losses():
    n, gamma, q = 50, 0.3, 0.2
    moment = n * math.log(1 - q + q * math.exp(-gamma)) + gamma * n * q
    assert moment <= theory.BoundedLoss(1.0).psi(gamma, n)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "as-printed"}, "Did you mean 'as_printed'"),
        ({"gamma": 0.0}, "positive"),
        ({"gamma": 2.0}, "below 2"),
        ({"delta": 0.0}, "delta"),
        ({"variance": 0.2}, "between 0 and 1/8"),
        ({"squared_norms": [1.0]}, "one number of each per member"),
        ({"member_nll": [math.inf, 1.0]}, "finite"),
        ({"n_unlabeled": 3}, "at least 1 and 8"),
        ({"precision": "float64"}, "Unknown precision"),
        ({"version": "as_printed", "n_grid": 3}, "leave these options alone"),
    ],
)
def test_impossible_arguments_get_one_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        theory.bound(**{**ARGUMENTS, **changes})


def test_an_empty_grid_and_a_negative_width_are_refused():
    with pytest.raises(InputError, match="grid"):
        theory.best_bound((), **ARGUMENTS)
    with pytest.raises(InputError, match="width"):
        theory.BoundedLoss(-1.0)
    with pytest.raises(InputError, match="scale"):
        theory.SubGaussianLoss(math.inf)


def runs(version="corrected"):
    return [
        theory.bound(**{**ARGUMENTS, "member_nll": [nll, nll], "variance": v}, gamma=0.5, version=version)
        for nll, v in ((0.2, 0.01), (0.4, 0.03))
    ]


def test_appendix_b_adds_a_hoeffding_term_for_what_varies():
    total = theory.bound_over_ensembles(
        runs("as_printed"),
        nll_range=2.0,
        complexity_range=3.0,
        expected_variance=theory.expected_variance(2, 10),
        nll_failure=0.05,
        complexity_failure=0.02,
    )
    deviation = math.sqrt(2.0**2 * math.log(1 / 0.05) / 4) + math.sqrt(3.0**2 * math.log(1 / 0.02) / 4)
    complexity = np.mean([run.complexity for run in runs("as_printed")])
    assert total.total == pytest.approx(0.3 + deviation - 0.75 * 1 / 40 + complexity)
    assert total.failure == pytest.approx(0.05 + 0.05 + 0.02)


def test_a_measured_variance_pays_for_being_measured():
    total = theory.bound_over_ensembles(runs(), nll_range=1.0, complexity_range=1.0)
    assert total.variance == pytest.approx(-0.75 * 0.02)
    assert total.variance_deviation == pytest.approx(0.75 / 8 * math.sqrt(math.log(100) / 4))
    assert total.failure == pytest.approx(0.05 + 3 * 0.01)


def test_more_ensembles_make_it_tighter():
    few = theory.bound_over_ensembles(runs(), nll_range=1.0, complexity_range=1.0)
    many = theory.bound_over_ensembles(runs() * 50, nll_range=1.0, complexity_range=1.0)
    assert many.total < few.total


@pytest.mark.parametrize(
    ("bounds", "changes", "message"),
    [
        ([], {}, "No bounds"),
        (runs()[:1] + runs("as_printed")[1:], {}, "differ in gamma, delta or version"),
        (runs(), {"nll_range": 0.1}, "cover"),
        (runs(), {"nll_failure": 0.0}, "nll_failure"),
    ],
)
def test_ensembles_that_do_not_fit_together_are_refused(bounds, changes, message):
    with pytest.raises(InputError, match=message):
        theory.bound_over_ensembles(bounds, **{"nll_range": 1.0, "complexity_range": 1.0, **changes})

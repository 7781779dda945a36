"""Packed ensembles: widths, parameter counts, and the limits in which they are the standard ensemble."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import PackedEnsemble
from nu_ensembles.methods.packed_ensemble import packed, widths_of

MODEL = nu.models.mlp(3, hidden=(16, 12))
HOW = {"steps": 40, "learning_rate": 0.01, "seed": 0}


def test_widths_are_alpha_over_k_of_the_networks_rounded_up_to_groups() -> None:
    assert widths_of(packed(MODEL, 4, 2.0)) == (8, 6)
    assert widths_of(packed(MODEL, 5, 2.0)) == (7, 5)
    assert widths_of(packed(MODEL, 4, 2.0, gamma=4)) == (8, 8)
    assert widths_of(packed(nu.models.mlp_large(3), 4, 2.0)) == (392, 250, 150)
    assert widths_of(packed(nu.models.lenet(3), 8, 2.0)) == (8, 16, 64)
    assert packed(MODEL, 4, 4.0) is MODEL
    assert packed(MODEL, 1, 1.0) is MODEL


def test_one_member_of_alpha_and_gamma_one_is_the_single_network(blobs) -> None:
    x, y, _ = blobs
    alone = nu.fit(MODEL, x, y, method="single", **HOW)
    found = nu.fit(MODEL, x, y, method=PackedEnsemble(alpha=1.0), n_members=1, **HOW)
    np.testing.assert_array_equal(found.predict_members(x), alone.predict_members(x))


def test_as_wide_as_k_networks_it_is_the_standard_ensemble_and_with_beta_a_nu_ensemble(blobs) -> None:
    x, y, u = blobs
    for plain, beta in (("standard", 0.0), (nu.methods.Nu(0.1), 0.1)):
        ensemble = nu.fit(MODEL, x, y, u, plain, n_members=3, **HOW)
        found = nu.fit(MODEL, x, y, u, PackedEnsemble(alpha=3.0, beta=beta), n_members=3, **HOW)
        np.testing.assert_array_equal(found.predict_members(x), ensemble.predict_members(x))


@pytest.mark.parametrize("gamma", [1, 2])
def test_its_parameters_and_a_round_trip(blobs, tmp_path: Path, gamma: int) -> None:
    x, y, _ = blobs
    ensemble = nu.fit(MODEL, x, y, method=PackedEnsemble(2.0, gamma), n_members=4, **HOW)
    # Widths 8 and 6: kernels of 4·8, 8·6/gamma and 6·3, and 8 + 6 + 3 biases.
    each = 4 * 8 + 8 * 6 // gamma + 6 * 3 + 17
    assert ensemble.training["procedure"] == {
        "widths": [8, 6],
        "n_parameters": 4 * each,
        "network_steps": 4 * 40,
    }
    assert sum(leaf.size for leaf in jax.tree.leaves(ensemble.params)) == 4 * each
    ensemble.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))


def test_groups_do_not_meet() -> None:
    """Equal to a layer whose kernel has blocks."""
    model = nu.models.mlp(3, hidden=(4, 4), groups=2)
    x = jax.random.normal(jax.random.key(1), (5, 6))
    variables = model.init(jax.random.key(0), x)
    weights = variables["params"]
    first, second, last = (weights[f"Dense_{number}"]["kernel"] for number in range(3))
    assert second.shape == (2, 2, 2)
    blocks = jax.scipy.linalg.block_diag(*second)
    expected = jax.nn.relu(jax.nn.relu(x @ first) @ blocks) @ last
    np.testing.assert_allclose(model.apply(variables, x, key=None, train=False), expected, rtol=1e-5, atol=1e-6)


def test_what_it_cannot_do_it_says(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match="make the network's layers narrower, which is known how to do for 'mlp'"):
        nu.fit(nu.Model(MODEL.init, MODEL.apply), x, y, method="packed", steps=1)
    images = np.zeros((6, 8, 8), np.float32)
    with pytest.raises(InputError, match="gamma above 1 makes groups of a perceptron's layers, and this network is"):
        nu.fit("lenet", images, np.arange(6) % 3, method=PackedEnsemble(gamma=2), steps=1)
    with pytest.raises(InputError, match=r"groups=3 must divide the units of every hidden layer, \(4, 4\)"):
        nu.models.mlp(3, hidden=(4, 4), groups=3)
    with pytest.raises(InputError, match="widths lists two numbers of filters and one of units"):
        nu.models.lenet(3, widths=(8, 8))

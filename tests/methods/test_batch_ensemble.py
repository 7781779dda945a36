"""BatchEnsemble: shared weights and rank-one ones, in the limit where those are all ones and by their number."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import BatchEnsemble
from nu_ensembles.models.rank_one import members_of
from nu_ensembles.models.wrapped import wrapped

MODEL = nu.models.mlp(3, hidden=(16,))
K, F, H, C = 3, 4, 16, 3
KEY = jax.random.key(0)
X = jax.random.normal(KEY, (7, F))


def rank_one(negative: float = 0.5, model: nu.Model = MODEL, x: jax.Array = X) -> tuple[nu.Model, dict]:
    network = wrapped(model, "rank_one", n_members=K, negative=negative)
    return network, network.init(KEY, x)


def test_with_all_ones_every_member_is_the_single_network() -> None:
    network, variables = rank_one(negative=0.0)
    alone = MODEL.init(KEY, X)
    for leaf, own in zip(jax.tree.leaves(members_of(variables["params"])), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(leaf, np.stack([own] * K))
    logits = MODEL.apply(alone, X, key=None, train=False)
    np.testing.assert_allclose(network.apply(variables, X, key=KEY, train=True), logits, rtol=1e-6)
    np.testing.assert_allclose(
        jax.nn.softmax(network.apply(variables, X, key=None, train=False)), jax.nn.softmax(logits), rtol=1e-5
    )


def test_a_member_scales_what_enters_and_leaves_each_layer() -> None:
    """W * (r s') x is s times W' (r times x)."""
    _, variables = rank_one()
    shared, fast = variables["params"]["shared"]["params"], variables["params"]["fast"]
    member = jax.tree.map(lambda leaf: leaf[1], members_of(variables["params"]))
    first, second = fast["1"], fast["3"]  # of biases and kernels in alphabetical order
    h = jax.nn.relu(((X * first["r"][1]) @ shared["Dense_0"]["kernel"]) * first["s"][1])
    expected = ((h * second["r"][1]) @ shared["Dense_1"]["kernel"]) * second["s"][1]
    np.testing.assert_allclose(MODEL.apply(member, X, key=None, train=False), expected, rtol=1e-4, atol=1e-6)
    assert set(np.unique(first["r"])) == {-1.0, 1.0}


def test_a_convolution_scales_its_channels() -> None:
    images = jax.random.normal(KEY, (2, 8, 8, 1))
    lenet = nu.models.lenet(C, widths=(4, 4, 8))
    _, variables = rank_one(model=lenet, x=images)
    kernel = variables["params"]["shared"]["params"]["Conv_1"]["kernel"]
    fast = variables["params"]["fast"]["3"]
    member = members_of(variables["params"])["params"]["Conv_1"]["kernel"][2]
    np.testing.assert_allclose(member, kernel * fast["r"][2][:, None] * fast["s"][2], rtol=1e-6)
    assert fast["r"].shape == (K, 4)


def test_each_member_sees_its_share_of_the_rows() -> None:
    network, variables = rank_one()
    logits = network.apply(variables, X, key=KEY, train=True)
    members = members_of(variables["params"])
    for row in range(7):  # three rows each, and one for the last
        own = jax.tree.map(lambda leaf, at=row // 3: leaf[at], members)
        alone = MODEL.apply(own, X[row : row + 1], key=None, train=False)[0]
        np.testing.assert_allclose(logits[row], alone, rtol=1e-4, atol=1e-6)


def test_its_parameters_are_those_of_one_network_and_vectors(blobs, tmp_path: Path) -> None:
    x, y, _ = blobs
    ensemble = nu.fit(MODEL, x, y, method="batch_ensemble", n_members=K, steps=60, learning_rate=0.01)
    kernels, vectors, biases = F * H + H * C, (F + H) + (H + C), H + C
    assert ensemble.training["procedure"]["n_parameters"] == kernels + K * (vectors + biases)
    assert ensemble.n_members == K
    assert np.mean(ensemble.predict(x) == y) > 0.8
    members = ensemble.predict_members(x)
    assert np.abs(members[0] - members[1]).max() > 0.01
    ensemble.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_members(x), members)


def test_all_rows_for_every_member_is_the_mean_of_their_losses() -> None:
    from nu_ensembles.methods import Batch
    from nu_ensembles.methods.batch_ensemble import RepeatedRows
    from nu_ensembles.methods.losses import cross_entropy

    network, variables = rank_one()
    y, weight = jnp.arange(7) % C, jnp.linspace(0.5, 1.5, 7)

    def forward(*inputs: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(network.apply(variables, x, key=KEY, train=True) for x in inputs)

    found = RepeatedRows(K).loss(forward, Batch(X, y, weight))
    logits = jax.vmap(lambda p: MODEL.apply(p, X, key=None, train=False))(members_of(variables["params"]))
    np.testing.assert_allclose(found, np.mean([cross_entropy(each, y, weight) for each in logits]), rtol=1e-5)


def test_what_it_cannot_do_it_says_before_it_trains() -> None:
    with pytest.raises(InputError, match="takes no beta, since its members do not train on their own; random labels"):
        nu.methods.build("batch_ensemble", beta=0.1)
    with pytest.raises(InputError, match=r"negative is a probability, from 0 to 1, not 2"):
        BatchEnsemble(negative=2)
    with pytest.raises(InputError, match=r"Unknown rows of a batch ensemble 'sharde'\. Did you mean 'shared'"):
        BatchEnsemble("sharde")  # pyright: ignore[reportArgumentType]
    lenet = nu.models.lenet(3)
    mine = nu.Model(lenet.init, lenet.apply)
    with pytest.raises(InputError, match="which it does for matrices and the built-in networks"):
        nu.fit(mine, np.zeros((4, 8, 8), np.float32), np.arange(4) % 3, method="batch_ensemble", steps=1)

"""Networks for sparse rows: the variables, the logits and the gradients of those for dense rows."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.models.sparse import for_dense_rows, for_sparse_rows
from nu_ensembles.models.wrapped import wrapped

DENSE = np.array([[0, 3, 0, 4, 0], [5, 0, 0, 0, 0]], np.float32)
PAIRS = np.array([[[1, 3], [3, 4]], [[0, 5], [0, 0]]], np.float32)


@pytest.mark.parametrize("model", [nu.models.mlp(3, hidden=(4,)), nu.models.mlp(3, hidden=(), dtype="float32")])
def test_variables_logits_and_gradients_are_those_of_the_network_for_dense_rows(model: nu.Model) -> None:
    sparse = for_sparse_rows(model, 5)
    assert sparse is not None
    key = jax.random.key(0)
    variables = model.init(key, DENSE)
    jax.tree.map(np.testing.assert_array_equal, variables, sparse.init(key, PAIRS))

    def loss(network: nu.Model, rows: np.ndarray):
        return jax.value_and_grad(lambda at: (network.apply(at, jnp.asarray(rows), key=None, train=False) ** 2).sum())(
            variables
        )

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), loss(model, DENSE), loss(sparse, PAIRS))


def test_the_two_networks_lead_to_each_other() -> None:
    model = nu.models.mlp_large(3)
    sparse = for_sparse_rows(model, 5)
    assert sparse is not None
    assert for_dense_rows(sparse) is model
    assert for_dense_rows(model) is model
    assert pickle.loads(pickle.dumps(sparse)) is sparse
    around = for_sparse_rows(wrapped(model, "probit"), 5)
    assert around is not None
    assert for_dense_rows(around) is wrapped(model, "probit")
    assert for_sparse_rows(nu.models.lenet(3), 5) is None
    assert for_sparse_rows(nu.models.mlp(3, ramps=True), 5) is None

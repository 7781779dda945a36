"""Four PyTorch networks compute the same in JAX: predictions, training, gradients, batch statistics."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.models import Model, from_torch, join_variables, split_variables

torch = pytest.importorskip("torch")
nn = torch.nn
N_CLASSES = 5


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, N_CLASSES))


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding="same"), nn.ReLU()
        )
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(8 * 2 * 2, N_CLASSES)

    def forward(self, x: Any) -> Any:
        return self.fc(self.dropout(self.pool(self.convolutions(x)).flatten(1)))


class Block(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet() -> Any:
    return nn.Sequential(Block(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, N_CLASSES))


class Encoder(nn.Module):
    """A row is a sequence of six numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(1, 8)
        self.places = nn.Parameter(torch.randn(6, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(8, N_CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(self.layers(self.enter(x.unsqueeze(-1)) + self.places).mean(1))


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (6,)),
    "lenet": (LeNet, (3, 8, 8)),
    "resnet": (resnet, (3, 8, 8)),
    "encoder": (Encoder, (6,)),
}


@pytest.fixture(scope="module", params=list(NETWORKS))
def both(request: pytest.FixtureRequest) -> tuple[Model, Any, np.ndarray, str]:
    """A model, the network it was made of, and five rows."""
    make, row_shape = NETWORKS[request.param]
    torch.manual_seed(3)
    network = make()
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    model = from_torch(network, (1, *row_shape), same_start=True)
    return model, network, np.random.default_rng(0).normal(size=(5, *row_shape)).astype(np.float32), request.param


def start(model: Model, x: np.ndarray) -> Any:
    return model.init(jax.random.key(0), jnp.asarray(x))


def without_dropout(network: Any) -> Any:
    network = copy.deepcopy(network).train()
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return network


def test_predictions_are_those_of_the_network_in_eval_mode(both: Any) -> None:
    model, network, x, _ = both
    with torch.no_grad():
        expected = network.eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(model.apply(start(model, x), jnp.asarray(x)), expected, rtol=1e-5, atol=1e-6)


def test_a_batch_may_have_any_number_of_rows(both: Any) -> None:
    model, _, x, _ = both
    variables = start(model, x)
    several = model.apply(variables, jnp.asarray(x))
    np.testing.assert_allclose(model.apply(variables, jnp.asarray(x[:1])), several[:1], rtol=1e-4, atol=1e-5)


def test_gradients_and_batch_statistics_are_those_of_the_network_after_five_steps(both: Any) -> None:
    model, network, x, _ = both
    network = without_dropout(network)
    w = np.random.default_rng(1).normal(size=(5, N_CLASSES)).astype(np.float32)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    params, state = split_variables(start(model, x))

    @jax.jit
    def gradient(params: Any, state: Any) -> tuple[Any, Any]:
        def loss(params: Any) -> tuple[Any, Any]:
            output = model.apply(join_variables(params, state), jnp.asarray(x), key=None, train=True)
            logits, new_state = output if state else (output, {})
            return jnp.mean(jnp.square(logits - w)), new_state

        return jax.grad(loss, has_aux=True)(params)

    for _ in range(5):
        optimiser.zero_grad()
        (network(torch.from_numpy(x)) - torch.from_numpy(w)).square().mean().backward()
        gradients, state = gradient(params, state)
        for name, parameter in network.named_parameters():
            np.testing.assert_allclose(gradients["params"][name], parameter.grad, rtol=1e-3, atol=2e-5, err_msg=name)
        optimiser.step()
        params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients)
    for name, buffer in network.named_buffers():
        np.testing.assert_allclose(state["buffers"][name], buffer, rtol=1e-4, atol=1e-6, err_msg=name)
        assert state["buffers"][name].dtype == (jnp.int32 if name.endswith("num_batches_tracked") else jnp.float32)


def test_dropout_follows_the_key_and_is_off_without_one(both: Any) -> None:
    model, _, x, name = both
    variables, rows = start(model, x), jnp.asarray(x)

    def trained(key: Any) -> np.ndarray:
        output = model.apply(variables, rows, key=key, train=True)
        return np.asarray(output[0] if isinstance(output, tuple) else output)

    first, again, other = (trained(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (name not in ("lenet", "encoder"))
    if name != "resnet":  # whose statistics differ
        np.testing.assert_allclose(trained(None), model.apply(variables, rows), rtol=1e-5, atol=1e-6)

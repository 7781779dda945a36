"""How members of a PyTorch network start: from the member's key, and from nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, from_torch

torch = pytest.importorskip("torch")
nn = torch.nn
X = jnp.ones((4, 3))


def net() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def members(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters of two members, drawn as the engine draws them."""
    keys = jax.random.split(jax.random.key(seed), 2)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda key: model.init(key, X)))(keys)["params"])


@pytest.fixture(scope="module")
def model() -> Model:
    return from_torch(net, (1, 3))


def test_parameters_have_the_names_and_shapes_that_they_have_in_pytorch(model: Model) -> None:
    shapes = {name: value.shape[1:] for name, value in members(model).items()}
    assert shapes == {"0.weight": (4, 3), "0.bias": (4,), "2.weight": (2, 4), "2.bias": (2,)}


def test_members_differ_and_the_same_key_draws_the_same_weights(model: Model) -> None:
    first, again, other = members(model), members(model), members(model, seed=1)
    assert not np.array_equal(first["0.weight"][0], first["0.weight"][1])
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


def test_old_style_keys_work_as_well(model: Model) -> None:
    assert model.init(jax.random.PRNGKey(0), X)["params"]["0.weight"].shape == (4, 3)


def test_the_generators_of_the_user_go_on_as_if_nothing_had_been_drawn() -> None:
    def drawing_everywhere() -> Any:
        np.random.random()  # noqa: NPY002
        return net()

    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = torch.rand(3), np.random.random(3)  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    members(from_torch(drawing_everywhere, (1, 3)))
    np.testing.assert_array_equal(torch.rand(3), expected[0])
    np.testing.assert_array_equal(np.random.random(3), expected[1])  # noqa: NPY002


def test_what_asks_for_no_gradient_is_state_and_tables_of_indices_are_part_of_the_program() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
            self.first.requires_grad_(False)
            self.register_buffer("order", torch.tensor([3, 1, 2, 0]))
            self.register_buffer("scale", torch.full((4,), 2.0))

        def forward(self, x: Any) -> Any:
            return self.last((self.first(x) * self.scale)[:, self.order])

    model = from_torch(Net, (1, 3))
    variables = model.init(jax.random.key(0), X)
    assert set(variables["params"]) == {"last.weight", "last.bias"}
    assert set(variables["buffers"]) == {"first.weight", "first.bias", "scale"}
    _, state = model.apply(variables, X, key=None, train=True)
    assert set(state["buffers"]) == set(variables["buffers"])


def test_a_tensor_with_two_names_is_one_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
            self.last.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.last(torch.relu(self.first(x)))

    torch.manual_seed(0)
    network = Tied()
    model = from_torch(network, (1, 3), same_start=True)
    variables = model.init(jax.random.key(0), X)
    assert set(variables["params"]) == {"first.weight", "first.bias", "last.bias"}
    np.testing.assert_allclose(model.apply(variables, X), network(torch.ones(4, 3)).detach(), rtol=1e-5, atol=1e-6)


def test_lazy_layers_find_their_sizes_from_the_example() -> None:
    model = from_torch(lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)), (1, 3))
    assert members(model)["0.weight"].shape == (2, 4, 3)


def test_all_members_start_from_a_module_that_exists_if_that_is_said() -> None:
    network = net()
    with pytest.raises(InputError, match=r"to start all of them from this module's weights say same_start=True"):
        from_torch(network, (1, 3))
    weights = members(from_torch(network, (1, 3), same_start=True))["0.weight"]
    np.testing.assert_array_equal(weights[0], network[0].weight.detach())
    np.testing.assert_array_equal(weights[1], network[0].weight.detach())


def test_what_is_fresh_starts_anew_for_every_member_and_the_module_stays_as_it_was() -> None:
    network = net()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    drawn = members(from_torch(network, (1, 3), same_start=True, fresh="2"))
    np.testing.assert_array_equal(drawn["0.weight"][0], drawn["0.weight"][1])
    assert not np.array_equal(drawn["2.weight"][0], drawn["2.weight"][1])
    for name, value in network.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    assert network.training


def test_same_start_calls_a_factory_once_for_all() -> None:
    drawn = members(from_torch(net, (1, 3), same_start=True, fresh=["2"]))
    np.testing.assert_array_equal(drawn["0.bias"][0], drawn["0.bias"][1])
    assert not np.array_equal(drawn["2.bias"][0], drawn["2.bias"][1])


def test_what_cannot_be_drawn_anew_is_refused() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.ParameterList([nn.Parameter(torch.ones(3, 2))])

        def forward(self, x: Any) -> Any:
            return x @ self.head[0]

    with pytest.raises(
        InputError, match=r"head cannot be drawn anew: a ParameterList has weights but no reset_parameters"
    ):
        from_torch(Bare, (1, 3), fresh="head")
    with pytest.raises(InputError, match=r"fresh names the submodule 'fc', which the network does not have"):
        from_torch(net, (1, 3), fresh="fc")


def test_a_factory_of_changing_networks_is_refused() -> None:
    sizes = iter((4, 5, 6))

    def changing() -> Any:
        n = next(sizes)
        return nn.Sequential(nn.Linear(3, n), nn.Linear(n, 2))

    with pytest.raises(
        InputError, match=r"must return the same network every time.* 0.weight was \(4, 3\) and is now \(5, 3\)"
    ):
        from_torch(changing, (1, 3))


def test_a_factory_whose_later_networks_are_others_is_refused_as_they_are_drawn_for_a_training() -> None:
    made = itertools.count()

    def changing() -> Any:
        return nn.Sequential(nn.Linear(3, n := 4 if next(made) < 3 else 5), nn.Linear(n, 2))

    model = from_torch(changing, (1, 3))
    with pytest.raises(InputError, match=r"must return the same network every time"):
        nu.fit(model, np.eye(6, 3), [0, 1, 0, 1, 0, 1], n_members=3, epochs=1)


def test_a_factory_of_layers_of_other_kinds_is_refused_though_their_weights_fit() -> None:
    for others, said in (((nn.Tanh(), nn.ReLU()), "1 was Tanh and is now ReLU"), ((), "1 was nothing and is now Tanh")):
        layers = iter([others[:1], *[others[1:] or (nn.Tanh(),)] * 3])
        with pytest.raises(InputError, match=said):
            from_torch(lambda layers=layers: nn.Sequential(nn.Linear(3, 2), *next(layers)), (1, 3)).init(
                jax.random.key(0), X
            )


def test_submodules_that_stand_in_eval_mode_stay_there_in_training() -> None:
    def frozen() -> Any:
        network = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
        network[0].eval()
        return network

    model = from_torch(frozen, (1, 3))
    variables = model.init(jax.random.key(0), X)
    _, state = model.apply(variables, X, key=None, train=True)
    np.testing.assert_array_equal(state["buffers"]["0.running_mean"], np.zeros(3))
    assert "0.num_batches_tracked" not in state["buffers"]


def test_a_network_that_comes_in_eval_mode_trains_all_the_same() -> None:
    model = from_torch(lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).eval(), (1, 3))
    _, state = model.apply(model.init(jax.random.key(0), X), X, key=None, train=True)
    np.testing.assert_allclose(state["buffers"]["0.running_mean"], np.full(3, 0.1), rtol=1e-6)

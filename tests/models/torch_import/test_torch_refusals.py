"""What cannot be imported from PyTorch is refused in one sentence."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.models import from_torch, torch_rule
from nu_ensembles.models.torch_import.rules import RULES

torch = pytest.importorskip("torch")
nn = torch.nn


class Around(nn.Module):
    """A linear layer with a function around it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 2), function

    def forward(self, x: Any) -> Any:
        return self.function(self.layer(x))


def test_all_operations_without_a_rule_are_named_at_once() -> None:
    with pytest.raises(
        InputError, match=r"have no rule yet: aten\.digamma\.default, aten\.igamma\.default\. Give each .*torch_rule"
    ):
        from_torch(lambda: Around(lambda y: torch.digamma(y) + torch.special.gammainc(y, y)), (1, 3))


def test_a_rule_of_the_users_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "aten.digamma.default", None)  # so that it is gone afterwards
    torch_rule("aten.digamma.default")(jax.scipy.special.digamma)
    network = Around(lambda y: torch.digamma(y + 3))
    model = from_torch(network, (1, 3), same_start=True)
    x = np.ones((2, 3), np.float32)
    variables = model.init(jax.random.key(0), jnp.asarray(x))
    np.testing.assert_allclose(model.apply(variables, jnp.asarray(x)), network(torch.from_numpy(x)).detach(), rtol=1e-5)
    with pytest.raises(InputError, match=r"torch_rule takes names such as 'aten.special_i0.default', not 'digamma'"):
        torch_rule("digamma")


def test_branches_on_values_are_refused_with_the_reason_of_torch_export() -> None:
    with pytest.raises(
        InputError, match=r"torch.export cannot turn the network into a graph.*data-dependent.*torch.where"
    ):
        from_torch(lambda: Around(lambda y: y if y.sum() > 0 else -y), (1, 3))


def test_sizes_that_hang_on_values_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"aten\.index\.Tensor gives a tensor whose size hangs on values.*torch\.where"
    ):
        from_torch(lambda: Around(lambda y: y + y[y > 0].sum()), (1, 3))


def test_a_network_for_one_batch_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"must take batches of any size.*x\.shape\[0\] or -1"):
        from_torch(lambda: Around(lambda y: y.reshape(2, -1)[:, :2] if y.shape[0] == 2 else y), (1, 3))


def test_a_backward_pass_written_by_hand_is_refused() -> None:
    class StraightThrough(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.round()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(InputError, match=r"drops backward passes that are written by hand \(StraightThrough\)"):
        from_torch(lambda: Around(StraightThrough.apply), (1, 3))


def test_other_devices_are_refused() -> None:
    with pytest.raises(InputError, match=r"layer.weight is on the device meta; let the factory make it on the CPU"):
        from_torch(lambda: Around(torch.relu).to("meta"), (1, 3))


@pytest.mark.parametrize(
    ("function", "found"),
    [(lambda y: y[0], "a tensor with 1 axes"), (lambda y: {"scores": y}, "a dict"), (lambda y: y.shape[0], "a int")],
)
def test_what_gives_no_logits_is_refused(function: Any, found: str) -> None:
    with pytest.raises(InputError, match=rf"must return logits \[B, C\]; this one returns {found}"):
        from_torch(lambda: Around(function), (1, 3))


@pytest.mark.parametrize("function", [lambda y: (y, y.sum()), lambda y: {"logits": y}, lambda y: [y]])
def test_logits_may_come_with_others(function: Any) -> None:
    model = from_torch(lambda: Around(function), (1, 3))
    assert model.apply(model.init(jax.random.key(0), jnp.ones((4, 3))), jnp.ones((4, 3))).shape == (4, 2)


def test_an_example_that_does_not_fit_the_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"fails on the example of shape \(2, 5\) in PyTorch already: RuntimeError"):
        from_torch(lambda: Around(torch.relu), (1, 5))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ((3,), r"must be that of a batch, such as \(1, 784\), not \(3,\)"),
        (np.ones((0, 3)), "must be a batch of numbers with at least one row"),
        (np.array([["a"]]), "must be a batch of numbers with at least one row"),
    ],
)
def test_an_example_that_is_no_batch_is_refused(example: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_torch(lambda: Around(torch.relu), example)


def test_rows_of_another_shape_than_the_examples_are_refused() -> None:
    model = from_torch(lambda: Around(torch.relu), (1, 3))
    with pytest.raises(InputError, match=r"takes rows of shape \(3,\), as its example has them, not \(4,\)"):
        model.init(jax.random.key(0), jnp.ones((2, 4)))


@pytest.mark.parametrize("factory", [7, lambda: 7])
def test_what_makes_no_module_is_refused(factory: Any) -> None:
    with pytest.raises(InputError, match=r"from_torch takes a factory"):
        from_torch(factory, (1, 3))


def test_features_are_asked_of_a_submodule_that_there_is_and_that_is_called() -> None:
    with pytest.raises(InputError, match=r"Unknown submodule 'layers'\. Did you mean 'layer'\?"):
        from_torch(lambda: Around(torch.relu), (1, 3), features="layers")

    def with_an_idle_part() -> Any:
        network = Around(torch.relu)
        network.idle = nn.Linear(2, 2)
        return network

    with pytest.raises(InputError, match=r"does not call its submodule 'idle'"):
        from_torch(with_an_idle_part, (1, 3), features="idle")


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError, match=r"models.from_torch needs an optional package: pip install 'nu-ensembles\[torch\]'"
    ):
        from_torch(lambda: None, (1, 3))

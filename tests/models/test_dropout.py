"""The dropout of networks: read, changed, found."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import pytest

from nu_ensembles import models
from nu_ensembles.errors import InputError
from nu_ensembles.models.dropout import draws_at_random, dropout_rate, has_mutable_state, with_dropout


class Normalised(nn.Module):
    """A layer with batch statistics."""

    @nn.compact
    def __call__(self, x: Any, train: bool) -> Any:
        return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(x))


class Dropping(nn.Module):
    """Dropout that nobody can set from outside."""

    @nn.compact
    def __call__(self, x: Any, deterministic: bool) -> Any:
        return nn.Dense(3)(nn.Dropout(0.5)(x, deterministic=deterministic))


def test_the_rate_of_a_built_in_network_is_an_option() -> None:
    assert dropout_rate(models.mlp(3)) == 0.0
    assert dropout_rate(models.wide_resnet(3)) == 0.3
    assert dropout_rate(models.lenet(3)) is None
    assert dropout_rate(models.from_linen(Dropping())) is None


def test_another_rate_gives_the_same_network_otherwise() -> None:
    changed = with_dropout(models.mlp(3, hidden=(8,)), 0.2)
    assert changed is models.mlp(3, hidden=(8,), dropout=0.2)
    assert with_dropout(changed, 0.2) is changed
    x, key = jax.numpy.zeros((1, 4)), jax.random.key(0)
    assert jax.eval_shape(changed.init, key, x) == jax.eval_shape(models.mlp(3, hidden=(8,)).init, key, x)


def test_a_network_without_such_an_option_says_what_has_one() -> None:
    with pytest.raises(InputError, match="The network 'lenet' has no dropout; use 'mlp' or 'wide_resnet', or"):
        with_dropout(models.lenet(3), 0.1)
    with pytest.raises(InputError, match="dropout rate of a network of your own cannot be set from outside; leave"):
        with_dropout(models.from_linen(Dropping()), 0.1)


def test_random_draws_and_mutable_state_are_found_without_computing() -> None:
    assert not draws_at_random(models.mlp(3), (4,))
    assert draws_at_random(models.mlp(3, dropout=0.1), (4,))
    assert draws_at_random(models.from_linen(Dropping()), (4,))
    assert draws_at_random(models.wide_resnet(3, depth=10, widen=1), (4, 4, 1))
    assert has_mutable_state(models.from_linen(Normalised()), (4,))
    assert not has_mutable_state(models.mlp(3, dropout=0.1), (4,))

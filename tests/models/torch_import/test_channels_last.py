"""Images that lie with their channels last mean what they would mean with their channels second."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.models.torch_import.channels_last import ChannelsLast, computed, in_order
from nu_ensembles.models.torch_import.rules import RULES

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4, 5)), jnp.float32)
LAST = ChannelsLast(jnp.moveaxis(X, 1, -1))
BY_CHANNEL, BY_COLUMN = jnp.arange(3.0).reshape(3, 1, 1), jnp.arange(5.0)


@pytest.mark.parametrize(
    ("name", "others", "options", "stays"),
    [
        ("relu.default", (), {}, True),
        ("add.Tensor", (BY_CHANNEL,), {"alpha": 2}, True),
        ("mul.Tensor", (BY_COLUMN,), {}, True),
        ("mul.Tensor", (jnp.float32(3.0),), {}, True),
        ("sub.Tensor", (X[None],), {}, False),  # more axes than an image
        ("clamp.Tensor", (), {"min": BY_CHANNEL}, False),
        ("constant_pad_nd.default", ([1, 0, 2, 1], 0.5), {}, True),
        ("constant_pad_nd.default", ([0, 0, 0, 0, 1, 1], 0.5), {}, False),  # channels are added
        ("glu.default", (2,), {}, False),
        ("sum.dim_IntList", ([1],), {}, False),
        ("max_pool2d.default", ([2, 2],), {}, True),
    ],
)
def test_a_rule_gives_the_same(name: str, others: tuple[Any, ...], options: dict[str, Any], stays: bool) -> None:
    rule = RULES[f"aten.{name}"]
    x: Array = X
    if name.startswith("glu"):
        x = X[:, :, :4]
    images = ChannelsLast(jnp.moveaxis(x, 1, -1))
    expected = rule.compute(x, *others, **options)
    found = computed(rule, [images, *others], options)
    assert isinstance(found, ChannelsLast) == stays
    np.testing.assert_allclose(in_order(found), expected, rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_images_are_joined_along_the_axis_that_pytorch_counts(dim: int) -> None:
    rule = RULES["aten.cat.default"]
    found = computed(rule, [[LAST, X], dim], {})
    assert isinstance(found, ChannelsLast)
    np.testing.assert_array_equal(in_order(found), jnp.concatenate([X, X], dim))


@pytest.mark.parametrize(
    ("name", "others", "shape"),
    [
        ("avg_pool2d.default", ([2, 2],), (3, 2, 2)),
        ("avg_pool2d.default", ([3, 3], [2, 2], [1, 1], True), (3, 3, 3)),
        ("max_pool2d.default", ([2, 2], [2, 2], [0, 0], [1, 1], True), (3, 2, 3)),
        ("adaptive_avg_pool2d.default", ([3, 2],), (3, 3, 2)),
        ("conv2d.default", (jnp.ones((6, 1, 3, 3)), None, 2, 1, 1, 3), (6, 2, 3)),
        ("group_norm.default", (3,), (3, 4, 5)),
        ("squeeze.default", (), (3, 4, 5)),
    ],
)
def test_exported_networks_take_any_number_of_rows(name: str, others: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    (rows,) = jax.export.symbolic_shape("rows")
    given = jax.ShapeDtypeStruct((rows, *X.shape[1:]), X.dtype)
    found = jax.eval_shape(lambda x: in_order(computed(RULES[f"aten.{name}"], [x, *others], {})), given)
    assert found.shape == (rows, *shape)

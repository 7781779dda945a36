"""What the built-in networks accept, how they drop out, and which precision they compute in."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles import models
from nu_ensembles.backend import GPU
from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, convolution, masks
from nu_ensembles.models.inspect import equations
from nu_ensembles.models.layers import small_product


def trained(model: Model, x: Array) -> Any:
    """Variables as some training might leave them: a wide ResNet's residual branches start at zero."""
    noise = np.random.default_rng(0)
    variables = jax.eval_shape(model.init, jax.random.key(0), x)
    return jax.tree.map(lambda p: jnp.asarray(0.2 * noise.standard_normal(p.shape), p.dtype), variables)


@pytest.mark.parametrize("name", ["mlp", "lenet", "wrn-10-2"])
@pytest.mark.parametrize("shape", [(5, 8, 8), (5, 28, 28, 1), (5, 7, 12, 3), (1, 32, 32, 4)])
def test_images_of_any_size_and_channel_count_give_one_row_of_logits_each(name: str, shape: tuple[int, ...]) -> None:
    model = models.build(name, 6)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), x)
    logits = jax.eval_shape(model.apply, variables, x)
    assert (logits.shape, logits.dtype) == ((shape[0], 6), jnp.float32)


@pytest.mark.parametrize(
    ("model", "n_features"), [(models.mlp(3), 64), (models.lenet(3), 256), (models.build("wrn-10-2", 3), 128)]
)
def test_the_last_layer_applied_to_the_features_gives_the_logits(model: Model, n_features: int) -> None:
    x = jax.random.uniform(jax.random.key(1), (2, 8, 8, 1))
    variables = trained(model, x)
    assert model.features is not None
    features = model.features(variables, x, key=None, train=False)
    assert features.shape == (2, n_features)
    params = variables["params"]
    last = params.get("fc") or params[sorted(name for name in params if name.startswith("Dense"))[-1]]
    np.testing.assert_allclose(
        features @ last["kernel"] + last["bias"], model.apply(variables, x), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("model", [models.mlp(3, dropout=0.5), models.lenet(3)], ids=["mlp with dropout", "lenet"])
def test_one_pass_gives_the_logits_and_the_features_of_two(model: Model) -> None:
    x = jax.random.uniform(jax.random.key(1), (2, 8, 8, 1))

    @jax.jit
    def both_ways(variables: Any) -> tuple[Any, Any]:
        assert model.features is not None
        assert model.apply_with_features is not None
        options = {"key": jax.random.key(2), "train": True}
        one = model.apply_with_features(variables, x, **options)
        return one, (model.apply(variables, x, **options), model.features(variables, x, **options))

    one, two = both_ways(trained(model, x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), one, two)


def test_an_mlp_without_hidden_layers_is_a_linear_map() -> None:
    model = models.mlp(3, hidden=())
    x = jnp.arange(8.0).reshape(2, 4)
    kernel, bias = jnp.arange(12.0).reshape(4, 3), jnp.array([1.0, 2.0, 3.0])
    logits = model.apply({"params": {"Dense_0": {"kernel": kernel, "bias": bias}}}, x)
    np.testing.assert_allclose(logits, [[43.0, 50.0, 57.0], [115.0, 138.0, 161.0]])


DROPPING = {
    "mlp": (models.mlp(3, dropout=0.5), False),
    "per image": (models.build("wrn-10-1", 3), False),
    "shared": (models.build("wrn-10-1", 3, shared_dropout=True), True),
}


@pytest.mark.parametrize(("model", "is_shared"), DROPPING.values(), ids=DROPPING)
def test_dropout_masks_are_per_sample_unless_shared(model: Model, is_shared: bool) -> None:
    same_twice = jnp.ones((2, 8, 8, 1))
    variables = trained(model, same_twice)

    def difference(key: Array | None, train: bool) -> float:
        logits = jax.jit(model.apply, static_argnames="train")(variables, same_twice, key=key, train=train)
        return float(jnp.abs(logits[0] - logits[1]).max())

    assert (difference(jax.random.key(0), train=True) == 0.0) == is_shared
    assert difference(None, train=True) == 0.0
    assert difference(jax.random.key(0), train=False) == 0.0


def test_a_wide_resnet_draws_the_masks_of_a_stage_together_and_those_of_each_stage_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = []

    def recorded(key: Array, n_masks: int, shape: tuple[int, ...], keep: float, stream: int) -> Any:
        drawn.append((n_masks, shape, stream))
        return masks.keep_masks(key, n_masks, shape, keep, stream)

    # By its name: in the package, that is the function that builds the network.
    monkeypatch.setattr(importlib.import_module("nu_ensembles.models.wide_resnet"), "keep_masks", recorded)
    model = models.build("wrn-16-1", 3)
    x, key = jax.ShapeDtypeStruct((2, 9, 8, 3), jnp.float32), jax.random.key(0)
    variables = jax.eval_shape(model.init, key, x)
    drawn.clear()
    jax.eval_shape(lambda v, x: model.apply(v, x, key=key, train=True), variables, x)
    shapes = [(2, 9, 8, 16), (2, 5, 4, 32), (2, 3, 2, 64)]
    assert [(n_masks, shape) for n_masks, shape, _ in drawn] == [(2, shape) for shape in shapes]
    assert len({stream for *_, stream in drawn}) == 3


def test_a_wide_resnet_written_for_a_gpu_has_the_gradients_of_the_one_written_for_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = models.build("wrn-10-1", 3, dtype="float32")
    x = jnp.asarray(np.random.default_rng(1).standard_normal((2, 2, 8, 7, 3), dtype=np.float32))
    variables, keys = trained(model, x[0]), jax.random.split(jax.random.key(0))
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), variables)

    def gradients() -> Any:
        def loss(members: Any) -> Array:
            logits = jax.vmap(lambda v, x, key: model.apply(v, x, key=key, train=True))(members, x, keys)
            return jnp.sum(jnp.sin(logits))

        return jax.jit(jax.grad(loss), compiler_options={"xla_backend_optimization_level": 0})(members)

    on_cpu = gradients()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), gradients(), on_cpu)


@pytest.mark.parametrize(
    ("backend", "n_classes", "products"), [("cpu", 3, 1), ("gpu", 3, 0), ("gpu", 1 + GPU.largest_sum // 20, 1)]
)
def test_a_small_last_layer_on_a_gpu_is_no_matrix_product(
    backend: str, n_classes: int, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 20), np.float32), rng.standard_normal((2, 20, n_classes), np.float32)
    members = jax.vmap(lambda x, w: small_product(x, w, (((1,), (0,)), ((), ()))))

    def loss(product: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, w: jnp.sum(jnp.sin(product(x, w)))

    found = jax.make_jaxpr(members)(x, w)
    assert sum(equation.primitive.name == "dot_general" for equation in equations(found.jaxpr)) == products
    both = [jax.value_and_grad(loss(product), (0, 1))(x, w) for product in (members, jnp.matmul)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), *both)


def test_dropout_without_a_key_is_no_dropout() -> None:
    model = models.mlp(3, dropout=0.5)
    x = jnp.ones((2, 4))
    variables = model.init(jax.random.key(0), x)
    np.testing.assert_array_equal(
        model.apply(variables, x, key=None, train=True), model.apply(variables, x, key=None, train=False)
    )


@pytest.mark.parametrize("name", ["lenet", "wrn-10-1"])
def test_bfloat16_is_for_products_alone(name: str) -> None:
    model = models.build(name, 3, dtype="bfloat16")
    x = jax.random.uniform(jax.random.key(1), (4, 8, 8, 3))
    variables = trained(model, x)
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype(jnp.float32)}

    def loss(variables: Any) -> Array:
        logits = model.apply(variables, x, key=None, train=True)
        assert logits.dtype == jnp.float32
        return jnp.sum(jax.nn.log_softmax(logits)[:, 0])

    operations: list[Any] = list(equations(jax.make_jaxpr(jax.grad(loss))(variables).jaxpr))
    by_name = {
        kind: [e.invars[0].aval.dtype.name for e in operations if e.primitive.name == kind]
        for kind in ("conv_general_dilated", "dot_general", "reduce_sum")
    }
    assert set(by_name["conv_general_dilated"]) == {"bfloat16"}
    assert by_name["dot_general"].count("float32") == 3  # the last layer: forward and two gradients
    assert set(by_name["reduce_sum"]) == {"float32"}

    full, narrow = (jax.jit(each.apply)(variables, x) for each in (models.build(name, 3), model))
    error = jnp.abs(narrow - full).max() / jnp.abs(full).max()
    assert 0 < error < 0.03


def test_float64_holds_from_the_parameters_to_the_logits() -> None:
    with jax.enable_x64(True):
        model = models.build("wrn-10-1", 3, dtype="float64")
        x = jnp.ones((2, 8, 8), jnp.float64)
        variables = jax.eval_shape(model.init, jax.random.key(0), x)
        logits = jax.eval_shape(model.apply, variables, x)
    assert {leaf.dtype for leaf in jax.tree.leaves((variables, logits))} == {jnp.dtype("float64")}


@pytest.mark.parametrize(("name", "n_convolutions"), [("mlp", 0), ("lenet", 2), ("wrn-22-4", 1 + 18 + 3)])
def test_every_convolution_goes_through_the_one_function(
    name: str, n_convolutions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*args: Any, **kwargs: Any) -> Array:
        calls.append(args)
        return jax.lax.conv_general_dilated(*args, **kwargs)

    model = models.build(name, 10)
    x = jax.ShapeDtypeStruct((2, 16, 16, 3), jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), x)
    monkeypatch.setattr(convolution, "conv_general_dilated", counted)
    jax.eval_shape(lambda v, x: model.apply(v, x), variables, x)
    assert len(calls) == n_convolutions


def test_lenet_refuses_a_table_and_says_what_to_use() -> None:
    sentence = r"LeNet takes images .* not an array of shape \(5, 20\); use the model 'mlp'"
    with pytest.raises(InputError, match=sentence):
        models.lenet(3).init(jax.random.key(0), jnp.ones((5, 20)))


def test_lenet_refuses_images_that_cannot_be_halved_twice() -> None:
    with pytest.raises(InputError, match="at least 4×4 pixels, not 3×8"):
        models.lenet(3).init(jax.random.key(0), jnp.ones((5, 3, 8)))

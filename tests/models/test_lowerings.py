"""Every lowering is the plain convolution, forwards and backwards, and `jax.vmap` puts in the one that was chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from nu_ensembles import models
from nu_ensembles.backend import CPU, GPU, Backend
from nu_ensembles.models import convolution, lowerings, unrolled
from nu_ensembles.models.convolution import FORWARD, INPUT_GRADIENT, LAYOUT, WEIGHT_GRADIENT, conv_general_dilated
from nu_ensembles.models.lowerings import Geometry

N_MEMBERS, N_IMAGES = 3, 2


def random(*shape: int, seed: int = 0) -> Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def quickly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled without optimisation: compiling is most of these tests' time."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(autouse=True)
def passes_traced_anew() -> Iterator[None]:
    """What a test replaces is looked up while a pass is traced: none may be left from an earlier test."""
    yield
    for cached in (convolution._forward, convolution._input_gradient, convolution._weight_gradient):
        cached.cache_clear()


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of at least 6 channels and weight gradients in blocks of at most 4, so that tiny layers meet both."""
    monkeypatch.setattr(lowerings, "NARROWEST_GROUP", 6)
    monkeypatch.setattr(lowerings, "WIDEST_GROUP", 4)


# kernel, strides, padding, channels in and out, height and width
CASES = {
    "3x3, two blocks to four": ((3, 3), (1, 1), "SAME", (8, 16), (3, 4)),
    "3x3, four blocks to two": ((3, 3), (1, 1), "SAME", (16, 8), (4, 3)),
    "3x3, channels that no blocks divide": ((3, 3), (1, 1), "VALID", (7, 9), (4, 5)),
    "3x3, two columns together": ((3, 3), (1, 1), "SAME", (16, 16), (3, 4)),
    "3x3, four columns together": ((3, 3), (2, 1), ((0, 2), (2, 1)), (5, 8), (4, 3)),
    "3x3, columns that do not pair": ((3, 3), (1, 1), "SAME", (16, 16), (4, 3)),
    "3x3, uneven margins": ((3, 3), (1, 1), ((0, 2), (2, 1)), (5, 3), (4, 5)),
    "3x3, images": ((3, 3), (1, 1), "SAME", (3, 8), (6, 5)),
    "3x3, stride 2, even": ((3, 3), (2, 2), "SAME", (4, 8), (6, 8)),
    "3x3, stride 2, odd, twice the channels": ((3, 3), (2, 2), "VALID", (4, 8), (8, 5)),
    "3x3, stride 2, odd": ((3, 3), (2, 2), "SAME", (5, 3), (7, 5)),
    "3x3, stride 2, valid": ((3, 3), (2, 2), "VALID", (8, 8), (8, 7)),
    "1x1": ((1, 1), (1, 1), "SAME", (5, 3), (3, 4)),
    "1x1, stride 2": ((1, 1), (2, 2), "SAME", (4, 8), (6, 5)),
    "1x1, uneven, with margins": ((1, 1), (2, 3), ((1, 0), (2, 1)), (8, 16), (4, 5)),
    "uneven": ((2, 3), (3, 2), ((0, 2), (1, 0)), (6, 8), (7, 7)),
    "uneven, twice the channels": ((2, 3), (3, 2), ((0, 2), (1, 0)), (4, 8), (7, 7)),
}


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("case", CASES)
def test_every_lowering_is_the_plain_convolution_in_values_and_both_gradients(case: str) -> None:
    size, strides, padding, (n_in, n_out), (height, width) = CASES[case]
    if isinstance(padding, str):
        (top, bottom), (left, right) = lax.padtype_to_pads((height, width), size, strides, padding)
        padding = ((top, bottom), (left, right))
    geometry = Geometry(strides, padding)
    x, w = random(2, N_IMAGES, height, width, n_in), random(2, *size, n_in, n_out, seed=1)
    served = {"grouped", "patches", "unrolled"} | ({"pointwise"} if size == (1, 1) else set())

    @quickly
    def passes(x: Array, w: Array) -> dict[str, tuple[Array, Array, Array]]:
        y, pull_back = jax.vjp(jax.vmap(lambda x, w: lowerings.plain(geometry, x, w)), x, w)
        g = jnp.cos(y)
        return {"plain": (y, *pull_back(g))} | {
            name: (
                FORWARD[name](geometry, x, w),
                INPUT_GRADIENT[name](geometry, w, g, (height, width)),
                WEIGHT_GRADIENT[name](geometry, x, g, size),
            )
            for name in served
        }

    assert set(FORWARD) == {*served, "pointwise"}
    found = passes(x, w)
    expected = found.pop("plain")
    for three in found.values():
        for value, right_one in zip(three, expected, strict=True):
            np.testing.assert_allclose(value, right_one, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("device", "n_members", "kernel", "expected"),
    [
        (CPU, 10, (3, 3, 64, 64), "unrolled"),
        (CPU, 10, (3, 3, 3, 16), "unrolled"),
        (CPU, 33, (3, 3, 64, 64), "grouped"),  # a program of 33 times as many convolutions compiles for too long
        (GPU, 10, (3, 3, 64, 64), "grouped"),
        (GPU, 10, (1, 1, 64, 128), "pointwise"),
        (GPU, 10, (1, 3, 64, 128), "grouped"),
        (CPU, 10, (1, 1, 64, 128), "unrolled"),
        (CPU, 33, (1, 1, 64, 128), "pointwise"),
        (GPU, 10, (3, 3, 3, 16), "patches"),
    ],
)
def test_the_lowering_goes_by_backend_members_and_channels(
    device: Backend, n_members: int, kernel: tuple[int, ...], expected: str
) -> None:
    assert convolution.lowering_of(device, n_members, kernel) == expected


def layer(x: Array, w: Array, stride: int = 1) -> Array:
    return conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=LAYOUT)


def plain_layer(x: Array, w: Array, stride: int = 1) -> Array:
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=LAYOUT)


def loss(x: Array, w: Array, convolve: Callable[[Array, Array], Array] = layer) -> Array:
    """A layer whose input has a gradient, too."""
    return jnp.sum(jnp.sin(convolve(jnp.tanh(x), w)))


X, W = random(N_MEMBERS, N_IMAGES, 4, 5, 4), random(N_MEMBERS, 3, 3, 4, 8, seed=1) / 3
Pair = tuple[Array, Array]
gradients = jax.grad(loss, (0, 1))


def summed(x: Array, w: Array) -> Array:
    return jnp.sum(jax.vmap(loss)(x, w))


def two_steps(x: Array, w: Array) -> Pair:
    def step(w: Array, _: None) -> tuple[Array, None]:
        return w - 0.01 * jax.grad(summed, 1)(x, w), None

    return x, lax.scan(step, w, length=2)[0]


WAYS: dict[str, Callable[[Array, Array], Pair]] = {
    "vmap(grad)": jax.vmap(gradients),
    "grad(sum(vmap))": jax.grad(summed, (0, 1)),
    "remat": jax.grad(lambda x, w: jnp.sum(jax.vmap(jax.checkpoint(loss))(x, w)), (0, 1)),
    "jit inside": jax.vmap(jax.jit(gradients)),
    "nested": lambda x, w: jax.tree.map(lambda g: g[0], jax.vmap(jax.grad(summed, (0, 1)))(x[None], w[None])),
}


@pytest.fixture(scope="module")
def one_member() -> Callable[[Array, Array], Pair]:
    """Both gradients of one member, by lax alone."""
    return jax.jit(jax.grad(lambda x, w: loss(x, w, plain_layer), (0, 1)))


def stacked(one_member: Callable[[Array, Array], Pair], xs: Any, ws: Any) -> Pair:
    pairs = [one_member(x, w) for x, w in zip(xs, ws, strict=True)]
    return jnp.stack([x for x, _ in pairs]), jnp.stack([w for _, w in pairs])


def assert_close(found: Pair, expected: Pair, tolerance: float = 1e-4) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(("chosen", "way"), [*(("grouped", way) for way in WAYS), ("patches", "grad(sum(vmap))")])
def test_gradients_are_those_of_lax_however_vmap_and_grad_meet(
    monkeypatch: pytest.MonkeyPatch, one_member: Any, chosen: str, way: str
) -> None:
    monkeypatch.setattr(convolution, "lowering_of", lambda *_: chosen)
    assert_close(quickly(WAYS[way])(X, W), stacked(one_member, X, W))


@pytest.mark.usefixtures("small_groups")
def test_images_or_kernels_may_be_shared_by_the_members(monkeypatch: pytest.MonkeyPatch, one_member: Any) -> None:
    monkeypatch.setattr(convolution, "lowering_of", lambda *_: "grouped")
    shared_images = quickly(jax.vmap(gradients, in_axes=(None, 0)))(X[0], W)
    assert_close(shared_images, stacked(one_member, [X[0]] * N_MEMBERS, W))
    shared_kernel = quickly(jax.vmap(gradients, in_axes=(0, None)))(X, W[0])
    assert_close(shared_kernel, stacked(one_member, X, [W[0]] * N_MEMBERS))


@pytest.mark.usefixtures("small_groups")
def test_steps_in_a_scan_are_steps_one_by_one(monkeypatch: pytest.MonkeyPatch, one_member: Any) -> None:
    monkeypatch.setattr(convolution, "lowering_of", lambda *_: "grouped")
    w = W
    for _ in range(2):
        w = w - 0.01 * stacked(one_member, X, w)[1]
    assert_close(quickly(two_steps)(X, W), (X, w))


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("chosen", ["grouped", "patches", "unrolled"])
def test_in_float64_the_gradients_agree_to_its_precision(
    monkeypatch: pytest.MonkeyPatch, one_member: Any, chosen: str
) -> None:
    monkeypatch.setattr(convolution, "lowering_of", lambda *_: chosen)
    with jax.enable_x64(True):
        x, w = jnp.asarray(np.asarray(X), jnp.float64), jnp.asarray(np.asarray(W), jnp.float64)
        found = quickly(WAYS["grad(sum(vmap))"])(x, w)
        assert found[1].dtype == jnp.float64
        assert_close(found, stacked(one_member, x, w), tolerance=1e-11)


def group_counts(function: Callable[..., Any], *arguments: Any) -> list[tuple[int, int]]:
    """(feature groups, batch groups) of every convolution in the program that the compiler is given."""
    # A lambda of its own: the same function would not be traced again for another backend.
    text = jax.jit(lambda *arguments: function(*arguments)).lower(*arguments).as_text()
    pattern = r"stablehlo\.convolution.*?batch_group_count = (\d+).*?feature_group_count = (\d+)"
    return [(int(features), int(batches)) for batches, features in re.findall(pattern, text)]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def forward_and_gradients(x: Array, w: Array) -> tuple[Array, Any]:
    return jax.value_and_grad(lambda x, w: jnp.sum(jnp.sin(jax.vmap(layer)(x, w))), (0, 1))(x, w)


@pytest.mark.usefixtures("on_gpu")
def test_on_a_gpu_each_pass_is_one_convolution_with_a_group_per_member() -> None:
    x, w = random(N_MEMBERS, 2, 4, 4, 8), random(N_MEMBERS, 3, 3, 8, 8)
    counts = group_counts(forward_and_gradients, x, w)
    # The weight gradient groups the batch: the members' images are its "channels".
    assert sorted(counts) == [(1, N_MEMBERS), (N_MEMBERS, 1), (N_MEMBERS, 1)]


@pytest.mark.usefixtures("on_gpu")
def test_on_a_gpu_images_of_few_channels_are_matrix_products() -> None:
    x, w = random(N_MEMBERS, 2, 4, 4, 3), random(N_MEMBERS, 3, 3, 3, 8)
    assert group_counts(forward_and_gradients, x, w) == []


@pytest.mark.usefixtures("on_gpu")
def test_on_a_gpu_1x1_kernels_are_matrix_products_of_pixels_before_members_before_channels() -> None:
    x, w = random(N_MEMBERS, 2, 4, 5, 8), random(N_MEMBERS, 1, 1, 8, 6)
    assert group_counts(forward_and_gradients, x, w) == []
    # lowerings.pointwise says why: as the compiler is given them, members are the second axis of what is multiplied.
    text = jax.jit(lambda x, w: jax.vmap(layer)(x, w)).lower(x, w).as_text()
    assert re.search(rf"stablehlo\.dot_general.*tensor<{2 * 4 * 5}x{N_MEMBERS}x8xf32>", text)


@pytest.mark.usefixtures("on_gpu")
def test_candidates_and_members_become_groups_of_one_convolution() -> None:
    x, w = random(2, N_MEMBERS, 2, 4, 4, 8), random(2, N_MEMBERS, 3, 3, 8, 8)
    assert group_counts(jax.vmap(jax.vmap(layer)), x, w) == [(2 * N_MEMBERS, 1)]


def test_on_a_cpu_each_pass_is_a_convolution_per_member() -> None:
    x, w = random(N_MEMBERS, 2, 4, 4, 8), random(N_MEMBERS, 3, 3, 8, 8)
    assert group_counts(forward_and_gradients, x, w) == [(1, 1)] * 3 * N_MEMBERS


@pytest.mark.parametrize("stride", [1, 2])
def test_on_a_cpu_weight_gradients_read_images_as_the_forward_pass_kept_them(stride: int) -> None:
    geometry = Geometry((stride, stride), ((1, 1), (1, 1)))
    kept, g = random(1, 16, 8, 8, 4), random(1, 4, 8 // stride, 8 // stride, 24)

    def gradient(kept: Array, g: Array) -> Array:
        return WEIGHT_GRADIENT["unrolled"](geometry, unrolled.images_last(kept), g, (3, 3))

    program = jax.jit(gradient).lower(kept, g).compile().as_text()
    assert program is not None
    assert re.search(r"\[16,8,8,4\]", program)
    assert not re.search(r"\[1?,?4,8,8,16\]", program)  # nowhere do the images come first again


@pytest.mark.parametrize("stride", [1, 2])
def test_on_a_cpu_the_weight_gradient_of_a_gradient_that_is_nan_is_nan_and_other_members_keep_theirs(
    stride: int,
) -> None:
    geometry = Geometry((stride, stride), ((1, 1), (1, 1)))
    x, g = random(2, 2, 4, 4, 3), random(2, 2, 4 // stride, 4 // stride, 5)
    weight_gradient = quickly(lambda x, g: WEIGHT_GRADIENT["unrolled"](geometry, x, g, (3, 3)))
    whole = weight_gradient(x, g)
    for place in ((0, 0, 0, 0, 0), (0, 1, 1, 1, 4)):
        found = weight_gradient(x, g.at[place].set(jnp.nan))
        assert jnp.isnan(found[0, 1, 1, :, place[-1]]).all()
        np.testing.assert_array_equal(found[1], whole[1])


def column_strides(dtype: Any, n_in: int, n_out: int, width: int) -> list[int]:
    """Of the forward pass and the input gradient of an unrolled 3x3 layer."""
    geometry = Geometry((1, 1), ((1, 1), (1, 1)))
    x, g = (jax.ShapeDtypeStruct((1, 2, 4, width, n), dtype) for n in (n_in, n_out))
    w = jax.ShapeDtypeStruct((1, 3, 3, n_in, n_out), dtype)

    def passes(x: Array, w: Array, g: Array) -> tuple[Array, Array]:
        return FORWARD["unrolled"](geometry, x, w), INPUT_GRADIENT["unrolled"](geometry, w, g, (4, width))

    text = jax.jit(passes).lower(x, w, g).as_text()
    strides = re.findall(r"stablehlo\.convolution[^\n]*?window = \{([^}]*)\}", text)
    found = [re.search(r"stride = \[\d+, (\d+)\]", each) for each in strides]
    return [1 if each is None else int(each[1]) for each in found]


def test_on_a_cpu_narrow_layers_compute_neighbouring_columns_together() -> None:
    assert column_strides(jnp.float32, 16, 16, 8) == [2, 2]
    assert column_strides(jnp.float32, 3, 16, 8) == [2, 1]  # no gain for a result of three channels
    assert column_strides(jnp.float32, 16, 8, 8) == [4, 2]
    assert column_strides(jnp.float32, 16, 16, 7) == [1, 1]
    assert column_strides(jnp.float32, 32, 16, 8) == [1, 1]
    assert column_strides(jnp.bfloat16, 16, 16, 8) == [1, 1]


@pytest.mark.usefixtures("on_gpu")
def test_without_vmap_it_is_the_plain_convolution() -> None:
    assert group_counts(layer, X[0], W[0]) == [(1, 1)]
    np.testing.assert_array_equal(jax.jit(layer)(X[0], W[0]), jax.jit(plain_layer)(X[0], W[0]))


# Shapes of images and kernel, and the options of a convolution that is lax's own business.
OTHERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "kernel dilation": ((2, 6, 6, 4), (3, 3, 4, 8), {"rhs_dilation": (2, 2), "dimension_numbers": LAYOUT}),
    "input dilation": ((2, 3, 3, 4), (3, 3, 4, 8), {"lhs_dilation": (2, 1), "dimension_numbers": LAYOUT}),
    "groups": ((2, 4, 4, 4), (3, 3, 2, 8), {"feature_group_count": 2, "dimension_numbers": LAYOUT}),
    "precision": ((2, 4, 4, 4), (3, 3, 4, 8), {"precision": lax.Precision.HIGHEST, "dimension_numbers": LAYOUT}),
    "channels first": ((2, 4, 6, 6), (8, 4, 3, 3), {}),
    "one dimension": ((2, 6, 4), (3, 4, 8), {"dimension_numbers": ("NWC", "WIO", "NWC")}),
    "three dimensions": ((1, 3, 3, 3, 2), (2, 2, 2, 2, 3), {"dimension_numbers": ("NDHWC", "DHWIO", "NDHWC")}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_all_other_convolutions_are_laxs_own(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a lowering was chosen")

    monkeypatch.setattr(convolution, "lowering_of", refuse)
    x_shape, w_shape, options = OTHERS[other]
    x, w = random(N_MEMBERS, *x_shape), random(N_MEMBERS, *w_shape)
    strides, padding = (1,) * (x.ndim - 3), ((1, 1),) * (x.ndim - 3)
    ours, laxs = (
        jax.make_jaxpr(jax.vmap(lambda x, w, f=f: f(x, w, strides, padding, **options)))(x, w)
        for f in (conv_general_dilated, lax.conv_general_dilated)
    )
    assert str(ours) == str(laxs)


class Network(nn.Module):
    """What a user writes, with our convolution in it."""

    hook: Any = conv_general_dilated

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        h = nn.relu(nn.Conv(8, (3, 3), strides=2, conv_general_dilated=self.hook)(x))
        h = nn.Conv(8, (3, 3), feature_group_count=2, conv_general_dilated=self.hook)(h)
        return nn.Dense(3)(h.mean((1, 2)))


@pytest.mark.usefixtures("on_gpu", "small_groups")
def test_a_users_linen_network_trains_through_the_hook() -> None:
    x = random(N_MEMBERS, 2, 4, 4, 5)
    shapes = jax.eval_shape(models.from_linen(Network()).init, jax.random.key(0), x[0])
    params = jax.tree.map(lambda leaf: random(N_MEMBERS, *leaf.shape), shapes)

    def gradients_with(hook: Any) -> Callable[[Any], Any]:
        model = models.from_linen(Network(hook))

        def one(params: Any, x: Array) -> Array:
            return jnp.sum(jnp.sin(model.apply(params, x, key=None, train=False)))

        return jax.grad(lambda params: jnp.sum(jax.vmap(one)(params, x)))

    found, expected = (
        quickly(gradients_with(hook))(params) for hook in (conv_general_dilated, lax.conv_general_dilated)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), found, expected)
    assert (N_MEMBERS, 1) in group_counts(gradients_with(conv_general_dilated), params)

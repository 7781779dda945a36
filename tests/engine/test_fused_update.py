"""AdamW with the gradient multiplied in the same pass: interpreted, and lowered for a GPU that is not here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.engine import fused_update, loops
from nu_ensembles.engine.factors import Factors
from nu_ensembles.engine.fast.packing import pack
from nu_ensembles.engine.finite import all_finite
from nu_ensembles.engine.program import LaneState
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Nu

mosaic: Any = import_module("jax.experimental.pallas.mosaic_gpu")
# An older JAX uses XLA's way instead, as `computes_right` finds out.
of_this_jax = pytest.mark.skipif(
    not hasattr(mosaic, "InterpretGPUParams"), reason="the kernel is for Mosaic GPU as JAX 0.11 and later have it"
)
# Kernels `[R, 2, 64]`, `[R, 64, 100]` and `[R, 100, 3]`; the second is uneven.
NETWORK = models.mlp(3, hidden=(64, 100))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes part, on a CPU and for small layers."""
    monkeypatch.setattr(fused_update, "_interpret", mosaic.InterpretGPUParams())
    monkeypatch.setattr(fused_update, "possible", lambda: True)
    monkeypatch.setattr(fused_update, "computes_right", lambda _: True)
    monkeypatch.setattr(fused_update, "LEAST", 2 * 64 * 100)


@pytest.fixture
def untouched() -> Iterator[None]:
    """What the process has found out about the kernel is forgotten before and after."""
    fused_update.computes_right.cache_clear()
    yield
    fused_update.computes_right.cache_clear()


def stepped(run: Run, n_steps: int) -> tuple[LaneState, jax.Array]:
    """Traced anew, whatever other tests have compiled."""
    block = run._block_of(0)
    ends = jnp.int32(0), jnp.int32(n_steps)
    steps = jax.jit(lambda state: loops.steps_of_a_block(run.program, state, run.lanes, run.data, block, *ends))
    return jax.tree.map(np.asarray, steps(run.state))


@pytest.fixture
def make(assembled) -> Callable[[], Run]:
    def run() -> Run:
        ready = assembled(Nu(0.1), range(2), model=NETWORK, batch_size=16, unlabeled_batch_size=16)
        return Run(ready.program, ready.lanes, ready.data)

    return run


@of_this_jax
@pytest.mark.parametrize("size", fused_update.SMALL_LAYERS)
@pytest.mark.parametrize("batch", [fused_update.BATCH_UNIT, fused_update.LARGEST_BATCH])
def test_a_layer_is_updated_as_numpy_does_it(interpreted, batch: int, size: tuple[int, int]) -> None:
    assert fused_update._difference(batch, size) < 1e-6


@of_this_jax
def test_networks_train_as_without_the_kernel(make, interpreted, monkeypatch, largest_difference) -> None:
    called = []
    adamw = fused_update.fused_adamw
    monkeypatch.setattr(fused_update, "fused_adamw", lambda *a, **k: called.append(a[0]) or adamw(*a, **k))
    with_kernel = stepped(make(), 3)
    assert [factors.left.shape for factors in called] == [(2, 32, 64)]
    monkeypatch.setattr(fused_update, "possible", lambda: False)
    without = stepped(make(), 3)
    assert len(called) == 1
    assert largest_difference(with_kernel, without) < 1e-5


@of_this_jax
def test_steps_that_do_not_count_change_nothing(make, interpreted, largest_difference) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # In rounds, the last of which reaches beyond the end.
        patch.setattr(jax, "default_backend", lambda: "gpu")
        patch.setattr(loops, "STEPS_A_ROUND", 4)
        rounds = stepped(make(), 3)
    plain = stepped(make(), 3)
    assert largest_difference(rounds[0].params, plain[0].params) < 1e-5
    assert largest_difference(rounds[0].optimiser_state, plain[0].optimiser_state) < 1e-5


@of_this_jax
def test_a_member_that_fails_keeps_its_kernels_and_the_others_go_on(make, interpreted) -> None:
    clean, poisoned = make(), make()
    rows = np.asarray(poisoned._block_of(0).rows)[:, 0]
    own = np.setdiff1d(rows[0], rows[1])[:1]  # which member 0 sees in its first step, and member 1 does not
    poisoned.data = poisoned.data._replace(weight=poisoned.data.weight.at[own].set(jnp.inf))
    before = jax.tree.map(np.asarray, poisoned.state.params)
    (after, _), (expected, _) = stepped(poisoned, 1), stepped(clean, 1)
    assert after.failed_at.tolist() == [0, -1]
    for old, new, right in zip(*map(jax.tree.leaves, (before, after.params, expected.params)), strict=True):
        np.testing.assert_array_equal(new[0], old[0])
        np.testing.assert_allclose(new[1], right[1], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "dtype", "pays"),
    [
        ((10, 3072, 784), "float32", True),
        ((10, 784, 500), "float32", True),
        ((10, 500, 300), "float32", False),  # too small
        ((10, 3072, 784), "bfloat16", False),
        ((10, 3072, 786), "float32", False),  # its rows start anywhere
        ((10, 100000, 12), "float32", False),  # narrower than a tile
        ((10, 3, 3, 512, 512), "float32", False),  # no dense layer
    ],
)
def test_it_is_for_large_dense_layers(shape: tuple[int, ...], dtype: str, pays: bool) -> None:
    assert fused_update.pays(jax.ShapeDtypeStruct(shape, dtype)) == pays


@pytest.mark.parametrize(("batch", "suits"), [(64, True), (128, True), (40, False), (256, False)])
def test_and_for_batches_that_fit_its_tiles(monkeypatch: pytest.MonkeyPatch, batch: int, suits: bool) -> None:
    monkeypatch.setattr(fused_update, "computes_right", lambda _: True)
    factors = (jax.ShapeDtypeStruct((10, batch, n), "float32") for n in (3072, 784))
    assert fused_update.suit(*factors) == suits


CPU = jax.devices("cpu")[0]


class Gpu:
    def __init__(self, capability: str) -> None:
        self.compute_capability = capability


@pytest.mark.parametrize(
    ("backend", "capabilities", "possible"),
    [
        ("gpu", ["9.0"], True),
        ("gpu", ["8.0"], False),
        ("gpu", ["10.0"], False),
        ("gpu", ["9.0", "9.0"], False),
        ("cpu", [""], False),
    ],
)
def test_it_is_for_one_gpu_of_a_kind(
    monkeypatch: pytest.MonkeyPatch, backend: str, capabilities: list[str], possible: bool
) -> None:
    monkeypatch.delenv(fused_update.SWITCH, raising=False)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: [Gpu(capability) for capability in capabilities])
    monkeypatch.setattr(jax, "device_count", lambda: len(capabilities))
    assert fused_update.possible() == possible
    with jax.default_device(CPU):
        assert not fused_update.possible()
    with jax.enable_x64(True):
        assert not fused_update.possible()
    monkeypatch.setenv(fused_update.SWITCH, "off")
    assert not fused_update.possible()


@pytest.mark.parametrize("failure", ["wrong", "not a number", "an error"])
def test_a_kernel_that_does_not_compute_right_is_not_relied_on(
    untouched, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    def difference(*_: Any) -> float:
        if failure == "an error":
            raise TypeError("kernel() got an unexpected keyword")
        return 0.1 if failure == "wrong" else float("nan")

    monkeypatch.setattr(fused_update, "_difference", difference)
    with pytest.warns(UserWarning, match="without the kernel .*NU_ENSEMBLES_FUSED_UPDATE=off"):
        assert not fused_update.computes_right(64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fused_update.computes_right(64)  # said once


def test_one_that_does_is(untouched, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(fused_update, "_difference", lambda *trial: tried.append(trial) or 1e-7)
    for batch in (64, 32, 64):
        # Also from within a program that is being traced.
        assert jax.jit(lambda x, batch=batch: x if fused_update.computes_right(batch) else -x)(1.0) == 1.0
    assert sorted(tried) == sorted((batch, size) for batch in (32, 64) for size in fused_update.SMALL_LAYERS)


@of_this_jax
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(3072, 784), (784, 500), (100, 36)])
def test_it_can_be_lowered_for_an_h200(n_inputs: int, n_outputs: int) -> None:
    def shape(*sizes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.float32)

    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    arguments = (shape(10),) * 5, shape(10, 64, n_inputs), shape(10, 64, n_outputs)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(fused_update._updated).trace(*arguments, *[shape(10, n_inputs, n_outputs)] * 3)
        assert "mosaic_gpu" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_factor_that_is_not_finite_is_noticed(value: float) -> None:
    right = jnp.ones((2, 4, 3)).at[1, 2, 0].set(value)
    factors = Factors(jnp.ones((2, 4, 8)), right, right.sum(axis=1))
    assert all_finite([factors, jnp.ones((2, 5))]).tolist() == [True, False]


def test_factors_are_large_leaves_of_a_packed_tree() -> None:
    factors = Factors(jnp.ones((4, 8)), jnp.ones((4, 3)), jnp.ones(3))
    packed = pack({"bias": jnp.zeros(3), "kernel": factors})
    assert packed.large == (factors,)
    assert packed.small is not None
    assert packed.small.shape == (3,)
    assert packed.holding({0: None}).large == (None,)
    assert packed.holding({0: "other"}).large == ("other",)

"""The compiler's head start: the first weight gradient that is traced is compiled meanwhile, and nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import nu_ensembles as nu
from nu_ensembles.diagnostics.rehearsal import random_data
from nu_ensembles.engine import head_start as head_starts
from nu_ensembles.engine import run
from nu_ensembles.engine.assembly import Settings, member_lanes
from nu_ensembles.engine.head_start import head_start
from nu_ensembles.methods.labels import random_key
from nu_ensembles.models.convolution import conv_general_dilated, weight_gradients_watched

N_MEMBERS, N_IMAGES = 2, 3


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has traced nothing yet: JAX would not trace the same gradients again."""
    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was searched for."""
    found: list[Any] = []
    monkeypatch.setattr(head_starts, "_search", found.append)
    return found


def traced_gradients() -> Any:
    """Two layers of 5 and 7 channels, traced through the backward pass for several members."""

    def loss(kernels: list[Array], x: Array) -> Array:
        for kernel in kernels:
            x = conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(x)

    kernels = [jax.ShapeDtypeStruct((N_MEMBERS, 3, 3, *channels), jnp.float32) for channels in [(5, 5), (5, 7)]]
    x = jax.ShapeDtypeStruct((N_MEMBERS, N_IMAGES, 8, 8, 5), jnp.float32)
    return jax.eval_shape(jax.vmap(jax.grad(loss)), kernels, x)


def test_the_last_layers_gradient_is_searched_for_and_no_other(searched: list[Any]) -> None:
    with head_start():
        kernels = traced_gradients()
    (traced,) = searched
    assert [shape.shape for shape in traced.shapes] == [(2, N_IMAGES, 8, 8, 5), (2, N_IMAGES, 8, 8, 7)]
    assert jax.eval_shape(traced.gradient, *traced.shapes).shape == kernels[1].shape


def test_what_is_traced_before_and_afterwards_is_not_searched_for(searched: list[Any]) -> None:
    traced_gradients()
    with head_start():
        pass
    traced_gradients()
    assert searched == [None]


def test_a_search_compiles_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_it = jax.stages.Lowered.compile
    monkeypatch.setattr(
        jax.stages.Lowered, "compile", lambda lowered: compiled.append(lowered.out_info.shape) or compile_it(lowered)
    )
    with head_start():
        kernels = traced_gradients()
    assert compiled[-1:] == [kernels[1].shape]  # the one before may have asked for XLA's options


def test_a_search_that_fails_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(lowered: Any) -> None:
        tried.append(lowered)
        raise jax.errors.JaxRuntimeError("out of memory")

    tried: list[Any] = []
    monkeypatch.setattr(head_starts, "knows_options", lambda *names: True)
    monkeypatch.setattr(jax.stages.Lowered, "compile", fails)
    with head_start():
        traced_gradients()
    assert len(tried) == 1


def test_an_error_while_tracing_comes_through_and_leaves_nothing_behind(searched: list[Any]) -> None:
    unwatched = weight_gradients_watched.get()
    with pytest.raises(ZeroDivisionError), head_start():
        raise ZeroDivisionError
    assert searched == [None]
    assert weight_gradients_watched.get() is unwatched


@pytest.mark.parametrize(
    ("network", "deterministic", "starts"), [("wrn-10-1", False, 1), ("wrn-10-1", True, 0), ("lenet", False, 0)]
)
def test_deep_networks_whose_kernels_are_chosen_by_timing_get_one(
    network: str, deterministic: bool, starts: int, searched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(run, "leave_out_slow_engines", lambda: None)
    monkeypatch.setattr(run, "side_by_side", lambda programs: seen.append(len(searched)))
    settings, method = Settings(deterministic=deterministic), nu.methods.Standard()
    data = random_data((8, 8, 1), method, N_MEMBERS, 3, 40, 40)
    program = settings.program(nu.models.build(network, 3, dtype="float32"), 40, 40)
    run.Run(program, member_lanes(random_key(0), [0, 1], 40, method, settings), data)._prepare()
    assert len(seen) == 1
    assert len(searched) == starts
    assert all(isinstance(each, head_starts.Traced) for each in searched)
    np.testing.assert_array_equal([shape.shape[0] for each in searched for shape in each.shapes], [2, 2] * starts)

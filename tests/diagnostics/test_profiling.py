"""Kernels are told apart by their names, and a traced step adds up."""

from __future__ import annotations

import pytest

from nu_ensembles import models
from nu_ensembles.diagnostics.profiling import KINDS, Event, Kernel, StepProfile, added_up, kind_of, profile_steps
from nu_ensembles.diagnostics.rehearsal import Rehearsal, random_assembly
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import AgreeToDisagree, Method, Nu, Standard

# As an H200 (jax 0.11) and a CPU (jax 0.10) name them.
NAMES = {
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize256x64x32": "convolution",
    "sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc": "convolution",
    "conv_general_dilated": "convolution",
    "nvjet_sm90_tst_64x16_64x16_1x2_h_bz_NNT": "matrix product",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_cublas": "matrix product",
    "gemm_fusion_dot_general": "matrix product",
    "dot": "matrix product",
    "input_convert_reduce_fusion": "reduction",
    "input_add_reduce_select_fusion": "reduction",
    "wrapped_reduce-window": "reduction",
    "loop_select_fusion": "optimiser, elementwise",
    "wrapped_convert": "optimiser, elementwise",
    "broadcast_add_fusion": "optimiser, elementwise",
    "fusion": "optimiser, elementwise",
    "loop_pad_fusion": "copy, transposition",
    "input_concatenate_fusion": "copy, transposition",
    "input_convert_transpose_fusion": "copy, transposition",
    "loop_gather_fusion": "copy, transposition",
    "wrapped_slice": "copy, transposition",
    "MemcpyD2D": "copy, transposition",
    "Memset 3": "copy, transposition",
    "loop_add_slice_xor_fusion": "random numbers, sorting",
    "loop_convert_or_fusion": "random numbers, sorting",
    "void cub::DeviceRadixSortOnesweepKernel": "random numbers, sorting",
    "something new": "other",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_kernels_name_tells_what_it_does(name: str) -> None:
    assert kind_of(name) == NAMES[name]


def test_copies_of_a_kernel_are_added_up_by_step_and_loops_are_not_counted_with_their_content() -> None:
    events = [
        Event("loop_pad_fusion_3", 1e6),
        Event("loop_pad_fusion", 2e6),
        Event("dot.12", 6e6),
        Event("while.7", 9e6),
        Event("call", 9e6),
    ]
    assert added_up(events, n_steps=2) == (
        Kernel("dot", "matrix product", 3.0, 0.5),
        Kernel("loop_pad_fusion", "copy, transposition", 1.5, 1.0),
    )


def test_where_a_library_hides_what_it_does_the_program_tells() -> None:
    events = [Event("ynn_fusion.1", 1e6, "jit_first_half"), Event("ynn_fusion.2", 2e6, "jit_first_half")]
    known = {("jit_first_half", "ynn_fusion.1"): "convolution", ("jit_other", "ynn_fusion.2"): "convolution"}
    kinds = {kernel.kind: kernel.ms for kernel in added_up(events, 1, known)}  # pyright: ignore[reportArgumentType]
    assert kinds == {"convolution": 1.0, "matrix product": 2.0}


def test_classes_are_listed_largest_first_and_none_is_left_out() -> None:
    kernels = (Kernel("a", "reduction", 1.0, 1), Kernel("b", "convolution", 2.0, 1), Kernel("c", "reduction", 4.0, 1))
    profile = StepProfile(8.0, 1.0, kernels, on_gpu=True)
    assert list(profile.by_kind().items())[:2] == [("reduction", 5.0), ("convolution", 2.0)]
    assert set(profile.by_kind()) == set(KINDS)
    assert profile.kernel_ms == 7.0


@pytest.mark.slow
def test_a_traced_convolutional_network_convolves() -> None:
    settings = Settings(batch_size=4, plan="sequential")
    rehearsal = Rehearsal(models.lenet(3), (4, 4, 1), Standard(), 2, settings, n_classes=3, n_rows=8, n_unlabeled=8)
    assert (rehearsal.plan.name, rehearsal.n_groups) == ("sequential", 2)
    profile = profile_steps(rehearsal, 2, 2)
    assert profile.ms > 0
    assert profile.compile_s > 0
    assert not profile.on_gpu
    kinds = profile.by_kind()
    assert kinds["convolution"] > 0
    assert kinds["matrix product"] > 0
    assert rehearsal.run.step == 1 + 2 + 2 + 2


def test_random_rows_are_what_a_method_asks_for() -> None:
    def sizes(method: Method) -> list[tuple[int, ...] | None]:
        data = random_assembly(models.mlp(2, hidden=(3,)), (4,), method, 3, Settings(), 2, 40, 50).data
        return [
            None if part is None else part.shape for part in (data.x, data.x_unlabeled, data.targets, data.previous)
        ]

    # Row counts are padded to powers of two.
    assert sizes(Standard()) == [(64, 4), None, None, None]
    assert sizes(Nu(0.1)) == [(64, 4), (64, 4), (3, 64), None]
    assert sizes(AgreeToDisagree()) == [(64, 4), (64, 4), None, (3, 64, 2)]

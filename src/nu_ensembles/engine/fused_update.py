"""AdamW of large dense layers on NVIDIA's Hopper GPUs, with the gradient multiplied in the same pass.

XLA multiplies a layer's gradient, stores it, and reads it again for the update: 8 of the 32 bytes that a number of a
kernel costs. The kernel here multiplies a tile of the gradient on the tensor cores while the tile's parameters and
moments arrive, updates them and sends them back. It is written in Mosaic GPU, which changes from version to version of
JAX: before a process relies on it, it has to do two small updates right, or else XLA's way is taken.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental.layout import Layout, with_layout_constraint

from nu_ensembles.engine.compilation import jitted_without_search, switched_off
from nu_ensembles.engine.factors import Factors
from nu_ensembles.engine.optimiser import BETA1, BETA2, EPSILON
from nu_ensembles.engine.side_by_side import side_by_side

SWITCH = "NU_ENSEMBLES_FUSED_UPDATE"
# Rows and columns of a tile, tiles that are on their way at once, and programs that go through the tiles, two on each
# of an H200's processors. Tensor cores want 64 rows.
TILE, SLOTS, PROGRAMS = (64, 16), 6, 264
# Numbers in all lanes' kernels from which a pass of its own pays.
LEAST = 1 << 21
# Rows of a batch: what tiles of the factors are laid out for, and what memory on the processor holds.
BATCH_UNIT, LARGEST_BATCH = 32, 128
# What a step does to a lane: nothing (0); it counts, but the lane has failed and its kernels stay; all is well.
COUNTS, GOOD = 1.0, 2.0
# Sizes of layers that the kernel has to update right before it is relied on; one has uneven tiles.
SMALL_LAYERS = (2 * TILE[0], 2 * TILE[1]), (TILE[0] + 16, TILE[1] + 4)
# Interpreted instead of compiled, for tests on a machine without such a GPU.
_interpret: Any = None


def possible() -> bool:
    """Whether there is one GPU of that kind to run on, JAX keeps to 32 bits, and nobody has switched the kernel off."""
    settings: Any = jax.config
    if switched_off(SWITCH) or settings.jax_enable_x64 or jax.default_backend() != "gpu" or jax.device_count() > 1:
        return False
    elsewhere = settings.jax_default_device not in (None, jax.devices()[0])
    return not elsewhere and str(getattr(jax.devices()[0], "compute_capability", "")).startswith("9.")


def pays(kernels: Any) -> bool:
    """Whether these are the kernels `[R, M, N]` of a dense layer for which the pass here is worth while."""
    return (
        kernels.ndim == 3
        and kernels.dtype == jnp.float32
        and kernels.size >= LEAST
        and all(n >= tile for n, tile in zip(kernels.shape[1:], TILE, strict=True))
        and kernels.shape[2] % 4 == 0  # rows start at multiples of 16 bytes
    )


def suit(left: Any, right: Any) -> bool:
    """Whether a gradient of these factors, known by their shapes, is for the pass here."""
    n_lanes, batch, height = left.shape
    kernels = jax.ShapeDtypeStruct((n_lanes, height, right.shape[2]), jnp.result_type(left.dtype, right.dtype))
    return pays(kernels) and batch % BATCH_UNIT == 0 and batch <= LARGEST_BATCH and computes_right(batch)


@functools.cache
def computes_right(batch: int) -> bool:
    """Whether small updates come out of the kernel for such batches as they should. Tried once a process."""
    try:
        # In threads of their own: here a program is being traced, which would take the small updates in.
        worst = max(side_by_side([lambda _, size=size: _difference(batch, size) for size in SMALL_LAYERS]))
        reason = f"a result is off by {worst:.1e}"
    except Exception as error:  # an interface that has changed fails in many ways
        worst, reason = np.inf, f"{type(error).__name__}: {error}"
    if not worst < 1e-4:
        warnings.warn(
            f"Large dense layers train without the kernel that is made for this GPU ({reason}): some steps take a "
            f"little longer, nothing else changes. {SWITCH}=off leaves it out without this message.",
            stacklevel=2,
        )
    return bool(worst < 1e-4)


def _difference(batch: int, size: tuple[int, int]) -> float:
    """Of the kernel's update of a small layer from NumPy's: the largest, relative to the largest number."""
    rng = np.random.default_rng(0)
    # Numbers that tensor cores do not round.
    left, right = (rng.integers(-8, 9, (2, batch, n)) / 8 for n in size)
    weight, mean, square = (rng.random((2, *size)) for _ in range(3))
    # The second lane has failed: its gradient counts as zero and its parameters stay.
    rate, decay, correction1, correction2, good = 1e-2, 1e-1, 2.0, 1.5, np.array([1.0, 0.0])
    constants = *(np.full(2, each) for each in (rate, decay, correction1, correction2)), np.array([GOOD, COUNTS])
    given = jax.tree.map(jnp.float32, (constants, left, right, weight, mean, square))
    got = jitted_without_search(_updated)(*given)
    gradient = np.einsum("r,rbm,rbn->rmn", good, left, right)
    mean, square = BETA1 * mean + (1 - BETA1) * gradient, BETA2 * square + (1 - BETA2) * gradient**2
    step = rate * (correction1 * mean / (np.sqrt(correction2 * square) + EPSILON) + decay * weight)
    expected = weight - good[:, None, None] * step, mean, square
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in zip(got, expected, strict=True))


def fused_adamw(
    factors: Factors,
    weight: Array,
    mean: Array,
    square: Array,
    *,
    learning_rate: Array,
    weight_decay: Array,
    count: Array,
    good: Array,
    counts: Array | None,
) -> tuple[Array, Array, Array]:
    """One step of AdamW: the new kernels `[R, M, N]` and their moments.

    Args:
      weight, mean, square: kernels and moments before the step; learning_rate, weight_decay: `[R]`.
      count: `[R]`, the steps up to and with this one.
      good: `[R]`; where false the gradient counts as zero and the kernels stay.
      counts: scalar bool; where false nothing changes. None for a step that counts.
    """
    corrections = (1 / (1 - beta ** count.astype(jnp.float32)) for beta in (BETA1, BETA2))
    mode = jnp.where(good, GOOD, COUNTS if counts is None else jnp.where(counts, COUNTS, 0.0))
    constants = learning_rate, weight_decay, *corrections, mode
    return _updated(constants, factors.left, factors.right, weight, mean, square)


def _updated(constants: tuple[Array, ...], left: Array, right: Array, *state: Array) -> tuple[Array, Array, Array]:
    """The kernel's results; constants, each `[R]`: learning rate, weight decay, both corrections, mode of the step."""
    if _interpret is None:
        # Without this, XLA would turn batches as the kernel wants them where they are made, also for the forward
        # product, which wants them as they are.
        left = with_layout_constraint(left, Layout((0, 1, 2)))
    columns, rows = _for_tensor_cores(left), _for_tensor_cores(right)
    weight, mean, square = (jax.new_ref(each) for each in state)
    _kernel(weight.shape, left.shape[1])(*constants, columns, rows, weight, mean, square)
    return weight[...], mean[...], square[...]


def _for_tensor_cores(factor: Array) -> Array:
    """A factor `[R, B, n]` as they take it: `[R, n', B]`, eight rows after eight.

    They cut numbers off after ten bits, which makes a gradient smaller by two thousandths at most. AdamW does not see
    that: it divides by the gradients' size.
    """
    return jnp.pad(factor.swapaxes(1, 2), ((0, 0), (0, -factor.shape[2] % 8), (0, 0)))


def _kernel(shape: tuple[int, ...], batch: int) -> Callable[..., Any]:
    """The kernel of constants, factors `[R, M', B]` and `[R, N', B]`, and the state `[R, M, N]`, which it changes."""
    # Only here, as most processes never need them, and as anything, for they are not the same in all versions.
    pl: Any = import_module("jax.experimental.pallas")
    plgpu: Any = import_module("jax.experimental.pallas.mosaic_gpu")
    (height, width), (n_lanes, *size) = TILE, shape
    down, across = -(-size[0] // height), -(-size[1] // width)
    n_tiles = n_lanes * down * across
    n_programs = min(PROGRAMS, n_tiles)
    # Tiles that no edge cuts through are swizzled on their way, so that threads do not wait for each other's reads.
    even = size[0] % height == size[1] % width == 0
    semantics = plgpu.LoweringSemantics.Warpgroup if even else plgpu.LoweringSemantics.Lane

    def body(*refs: Any) -> None:
        constants, (columns, rows), state = refs[:5], refs[5:7], refs[7:10]
        (columns_tile, rows_tile), tiles, (factors_here, tile_here) = refs[10:12], refs[12:15], refs[15:]
        program = lax.axis_index("program")
        mine = lax.div(n_tiles - program + n_programs - 1, n_programs)

        def where(turn: Any) -> tuple[Any, Any, Any]:
            """Lane, rows and columns of this program's tile; copies leave out what is beyond the edges."""
            number = program + turn * n_programs
            lane, rest = lax.div(number, down * across), lax.rem(number, down * across)
            return lane, pl.ds(lax.div(rest, across) * height, height), pl.ds(lax.rem(rest, across) * width, width)

        def load_factors(turn: Any) -> None:
            lane, m, n = where(turn)
            plgpu.copy_gmem_to_smem(columns.at[lane, m, :], columns_tile, factors_here)
            plgpu.copy_gmem_to_smem(rows.at[lane, n, :], rows_tile, factors_here)

        def load(turn: Any) -> None:
            lane, m, n = where(turn)
            slot = lax.rem(turn, SLOTS)
            for whole, tile in zip(state, tiles, strict=True):
                plgpu.copy_gmem_to_smem(whole.at[lane, m, n], tile.at[slot], tile_here.at[slot])

        def product(sums: Any) -> Any:
            plgpu.wgmma(sums, columns_tile, rows_tile.transpose((1, 0)))
            plgpu.wgmma_wait(0)
            return sums[...]

        def one_tile(turn: Any, _: Any) -> Any:
            lane, m, n = where(turn)
            slot = lax.rem(turn, SLOTS)
            of_lane = [each[lane] for each in constants]
            plgpu.barrier_wait(factors_here)
            gradient = pl.run_scoped(product, plgpu.ACC(TILE, jnp.float32))
            pl.when(turn + 1 < mine)(lambda: load_factors(turn + 1))
            # The next tile to load goes where the last one was stored from: that has to be over.
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            pl.when(turn + SLOTS - 1 < mine)(lambda: load(turn + SLOTS - 1))
            plgpu.barrier_wait(tile_here.at[slot])
            old = [plgpu.load(tile.at[slot], layout=plgpu.Layout.WGMMA, optimized=even) for tile in tiles]
            for tile, new in zip(tiles, _adamw(of_lane, gradient, *old), strict=True):
                tile[slot] = new
            plgpu.commit_smem()
            for whole, tile in zip(state, tiles, strict=True):
                plgpu.copy_smem_to_gmem(tile.at[slot], whole.at[lane, m, n])
            return ()

        load_factors(0)
        for turn in range(SLOTS - 1):
            pl.when(turn < mine)(functools.partial(load, turn))
        lax.fori_loop(0, mine, one_tile, ())
        plgpu.wait_smem_to_gmem(0)

    for_tensor_cores = plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128)
    memory = functools.partial(plgpu.SMEM, dtype=jnp.float32)
    scratch = [memory((size, batch), transforms=for_tensor_cores) for size in TILE]
    scratch += [memory((SLOTS, *TILE))] * 3
    scratch += [plgpu.Barrier(num_arrivals=2), plgpu.Barrier(num_arrivals=3, num_barriers=SLOTS)]
    return plgpu.kernel(
        body,
        scratch_types=tuple(scratch),
        compiler_params=plgpu.CompilerParams(approx_math=True, lowering_semantics=semantics),
        grid=(n_programs,),
        grid_names=("program",),
        interpret=_interpret,
    )


def _adamw(of_lane: list[Any], gradient: Any, weight: Any, mean: Any, square: Any) -> tuple[Any, Any, Any]:
    """One tile's step."""
    rate, decay, correction1, correction2, mode = of_lane
    counting = jnp.minimum(mode, COUNTS)
    is_good = jnp.broadcast_to(mode == GOOD, TILE)
    gradient = jnp.where(is_good, gradient, 0.0)
    # A step that does not count adds nothing to the moments and takes nothing away.
    mean = mean + counting * (1 - BETA1) * (gradient - mean)
    square = square + counting * (1 - BETA2) * (gradient * gradient - square)
    moved = weight - rate * (mean * correction1 / (jnp.sqrt(square * correction2) + EPSILON) + decay * weight)
    # A parameter that would overflow stays, too.
    return jnp.where(is_good & (jnp.abs(moved) < jnp.inf), moved, weight), mean, square

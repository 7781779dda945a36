"""AdamW of ten members' dense layers whose gradient is multiplied in the same pass, against XLA's two passes.

    python benchmarks/fused_adamw.py [--quick] [--out results/fused-adamw-DEVICE.json]

The weight gradient of a dense layer is a product of two small factors, what came in and what came back. XLA stores the
product and reads it again for the update; the kernel here, in Mosaic GPU (Hopper's tensor cores and asynchronous
copies), multiplies a tile of it, updates that tile's parameters and moments, and never stores it. The layer is the
largest of the published perceptron, 3072 to 784 units, with batches of 64. For scale: the update of parameters and
moments alone, without any gradient. Without a GPU of that kind the kernel is interpreted, slowly, on a smaller layer.

The package does not use the kernel: see "Perceptrons" on the performance page.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.mosaic_gpu as plgpu
import jax.numpy as jnp
from jax import Array, lax

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
RATE, DECAY, STEPS_DONE = 1e-3, 0.1, 5
CORRECTION1, CORRECTION2 = 1 / (1 - BETA1**STEPS_DONE), 1 / (1 - BETA2**STEPS_DONE)
# Rows and columns of a tile, tiles that are loaded ahead, and programs that go through the tiles, two on each of an
# H200's processors: the best of some thirty that were tried. Fewer bytes on their way, or wider tiles with one program
# a processor, took 174 to 250 microseconds.
TILE, SLOTS, PROGRAMS = (64, 16), 6, 264


def adamw(weight: Any, mean: Any, square: Any, gradient: Any) -> tuple[Any, Any, Any]:
    """One step: the new parameters and moments."""
    mean = BETA1 * mean + (1 - BETA1) * gradient
    square = BETA2 * square + (1 - BETA2) * gradient * gradient
    step = mean * CORRECTION1 / (jnp.sqrt(square * CORRECTION2) + EPSILON)
    return weight - RATE * (step + DECAY * weight), mean, square


def two_passes(inputs: Array, back: Array, *state: Array) -> tuple[Array, ...]:
    """As XLA does it; inputs `[R, B, I]`, back `[R, B, O]`, each of the state `[R, I, O]`."""
    return adamw(*state, jnp.einsum("rbi,rbo->rio", inputs, back))


def no_gradient(inputs: Array, back: Array, *state: Array) -> tuple[Array, ...]:
    return adamw(*state, 1e-3)


def one_pass(inputs: Array, back: Array, *state: Array, programs: int = PROGRAMS, interpret: Any = None) -> Any:
    """The kernel; the arguments of `two_passes`."""
    # Tensor cores take float32 factors with the summed axis last.
    columns, rows = inputs.swapaxes(1, 2), back.swapaxes(1, 2)
    refs = [jax.new_ref(each) for each in state]
    _kernel(columns.shape, rows.shape, programs, interpret)(columns, rows, *refs)
    return tuple(ref[...] for ref in refs)


def _kernel(columns: tuple[int, ...], rows: tuple[int, ...], programs: int, interpret: Any) -> Callable[..., Any]:
    (height, width), (n_lanes, n_inputs, batch), n_outputs = TILE, columns, rows[1]
    down, across = n_inputs // height, n_outputs // width
    n_tiles = n_lanes * down * across

    def body(columns: Any, rows: Any, *refs: Any) -> None:
        state, (columns_tile, rows_tile), tiles = refs[:3], refs[3:5], refs[5:8]
        factors_here, tile_here = refs[8:]
        program = lax.axis_index("program")
        mine = lax.div(n_tiles - program + programs - 1, programs)

        def where(turn: Any) -> tuple[Any, Any, Any]:
            number = program + turn * programs
            lane, rest = lax.div(number, down * across), lax.rem(number, down * across)
            return lane, pl.ds(lax.div(rest, across) * height, height), pl.ds(lax.rem(rest, across) * width, width)

        def load_factors(turn: Any) -> None:
            lane, i, o = where(turn)
            plgpu.copy_gmem_to_smem(columns.at[lane, i, :], columns_tile, factors_here)
            plgpu.copy_gmem_to_smem(rows.at[lane, o, :], rows_tile, factors_here)

        def load(turn: Any) -> None:
            lane, i, o = where(turn)
            slot = lax.rem(turn, SLOTS)
            for whole, tile in zip(state, tiles, strict=True):
                plgpu.copy_gmem_to_smem(whole.at[lane, i, o], tile.at[slot], tile_here.at[slot])

        def product(sums: Any) -> Any:
            plgpu.wgmma(sums, columns_tile, rows_tile.transpose((1, 0)))
            plgpu.wgmma_wait(0)
            return sums[...]

        def one_tile(turn: Any, _: Any) -> Any:
            lane, i, o = where(turn)
            slot = lax.rem(turn, SLOTS)
            plgpu.barrier_wait(factors_here)
            gradient = pl.run_scoped(product, plgpu.ACC(TILE, jnp.float32))
            pl.when(turn + 1 < mine)(lambda: load_factors(turn + 1))
            # The next tile to load goes where the last one was stored from: that has to be over.
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            pl.when(turn + SLOTS - 1 < mine)(lambda: load(turn + SLOTS - 1))
            plgpu.barrier_wait(tile_here.at[slot])
            old = [plgpu.layout_cast(tile[slot], plgpu.Layout.WGMMA) for tile in tiles]
            for tile, new in zip(tiles, adamw(*old, gradient), strict=True):
                tile[slot] = new
            plgpu.commit_smem()
            for whole, tile in zip(state, tiles, strict=True):
                plgpu.copy_smem_to_gmem(tile.at[slot], whole.at[lane, i, o])
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
        compiler_params=plgpu.CompilerParams(approx_math=True),
        grid=(programs,),
        grid_names=("program",),
        interpret=interpret,
    )


def layer(n_lanes: int, n_inputs: int, n_outputs: int) -> tuple[tuple[Array, Array], list[Array]]:
    """Factors of a gradient; parameters, their moments."""
    keys = jax.random.split(jax.random.key(0), 5)
    inputs = jax.random.normal(keys[0], (n_lanes, 64, n_inputs))
    back = jax.random.normal(keys[1], (n_lanes, 64, n_outputs)) * 0.01
    state = [jax.random.normal(key, (n_lanes, n_inputs, n_outputs)) * 0.01 for key in keys[2:]]
    return (inputs, back), [state[0], state[1], state[2] ** 2 + 1e-4]


def microseconds(way: Callable[..., Any], factors: tuple[Array, Array], state: list[Array], repeats: int) -> float:
    """Of one update, the median of seven measurements."""
    update = jax.jit(way, donate_argnums=(2, 3, 4))
    state = jax.block_until_ready(update(*factors, *map(jnp.copy, state)))
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            state = update(*factors, *state)
        jax.block_until_ready(state)
        taken.append((time.perf_counter() - start) / repeats * 1e6)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from recording import Recording

    hopper = jax.default_backend() == "gpu" and jax.devices()[0].compute_capability.startswith("9.")
    if not hasattr(plgpu, "InterpretGPUParams"):
        raise SystemExit("Mosaic GPU changes from version to version; this kernel is written for JAX 0.11.")
    one = one_pass if hopper else functools.partial(one_pass, programs=3, interpret=plgpu.InterpretGPUParams())
    size = (10, 3072, 784) if hopper else (2, 128, 32)
    factors, state = layer(*size)
    # Tensor cores round factors to ten bits after the point, in both ways of summing up.
    expected, got = (jax.jit(way)(*factors, *map(jnp.copy, state)) for way in (two_passes, one))
    for name, right, found in zip(("parameters", "first moments", "second moments"), expected, got, strict=True):
        worst = float(jnp.max(jnp.abs(found - right)) / jnp.max(jnp.abs(right)))
        print(f"{name}: largest difference {worst:.1e} of the largest value", flush=True)
        if worst > 1e-2:
            raise SystemExit(f"The kernel's {name} are wrong.")
    if not hopper:
        print("Not a GPU of NVIDIA's Hopper kind: nothing to time.")
        return
    name, command = "fused-adamw", "python benchmarks/fused_adamw.py"
    recording = Recording(name, command, ("way", "members"), options.out, options.quick)
    ways = {
        "XLA: product, then update": two_passes,
        "kernel: product inside the update": one,
        "XLA: update without a gradient": no_gradient,
    }
    for way, function in ways.items():
        found = microseconds(function, factors, state, 5 if options.quick else 40)
        recording.add({"way": way, "members": size[0], "inputs": size[1], "outputs": size[2], "us": found})
        print(f"{way:36s} {found:7.1f} us", flush=True)


if __name__ == "__main__":
    main()

"""Milliseconds of a convolution of ten members under every lowering, pass by pass.

    python benchmarks/convolution_lowerings.py [--members 10] [--images 64] [--kernel 1] [--out FILE]
    taskset -c 0 python benchmarks/convolution_lowerings.py --columns
    taskset -c 0 python benchmarks/convolution_lowerings.py --weight-gradients

For every layer shape of the published networks, or those with one size of kernel: forward, input gradient and weight
gradient, each compiled and timed alone, on images that lie as in a network: in bfloat16 with members next to the
channels on a GPU, in float32 member after member elsewhere. The rules in `nu_ensembles/models/convolution.py` come from
such a table. `--columns` times, on a CPU, one member's forward pass of narrow layers by one, two and four columns at
once, `--weight-gradients` one member's weight gradients as they are and with rows apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.models.convolution import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from nu_ensembles.models.lowerings import Geometry, plain, weight_gradient_of
from nu_ensembles.models.unrolled import by_columns, images_last, spread_weight_gradient
from recording import Recording

# (input channels, output channels, height and width, kernel size, stride)
LAYERS = (
    (64, 64, 32, 3, 1),
    (128, 128, 16, 3, 1),
    (256, 256, 8, 3, 1),
    (3, 16, 32, 3, 1),
    (16, 64, 32, 3, 1),
    (64, 128, 32, 3, 2),
    (128, 256, 16, 3, 2),
    (16, 64, 32, 1, 1),
    (64, 128, 32, 1, 2),
    (128, 256, 16, 1, 2),
    (3, 32, 32, 3, 1),
    (32, 64, 16, 3, 1),
)
# Input channels, output channels, height and width of narrow layers.
NARROW = ((16, 16, 32), (4, 16, 32), (16, 8, 32), (16, 24, 32), (32, 32, 16), (64, 16, 32))
SQUARE = ((3, 16, 32), (16, 16, 32), (32, 32, 16), (64, 64, 8), (3, 32, 32), (32, 64, 16))
REPEATS = 15


def milliseconds(function: Callable[..., jax.Array], *arguments: jax.Array) -> float:
    compiled = jax.jit(function)
    for _ in range(3):
        compiled(*arguments).block_until_ready()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(REPEATS):
            result = compiled(*arguments)
        result.block_until_ready()
        times.append((time.perf_counter() - start) / REPEATS * 1e3)
    return statistics.median(times)


def layer_rows(layer: tuple[int, int, int, int, int], n_members: int, n_images: int) -> list[dict[str, object]]:
    n_in, n_out, size, kernel, stride = layer
    on_gpu = jax.default_backend() == "gpu"
    dtype = jnp.bfloat16 if on_gpu else jnp.float32
    rng = np.random.default_rng(0)
    (low, high), *_ = jax.lax.padtype_to_pads((size, size), (kernel, kernel), (stride, stride), "SAME")
    geometry = Geometry((stride, stride), ((low, high), (low, high)))

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, np.float32), dtype)

    def laid(images: jax.Array) -> jax.Array:
        return jnp.moveaxis(images, 0, 3) if on_gpu else images

    def taken(images: jax.Array) -> jax.Array:
        return jnp.moveaxis(images, 3, 0) if on_gpu else images

    x = laid(drawn(n_members, n_images, size, size, n_in))
    w = drawn(n_members, kernel, kernel, n_in, n_out)
    g = laid(drawn(n_members, n_images, -(-size // stride), -(-size // stride), n_out))
    rows = []
    for name in FORWARD:
        if (name == "pointwise" and kernel > 1) or (name == "unrolled" and on_gpu):
            continue
        forward, to_input, to_weights = FORWARD[name], INPUT_GRADIENT[name], WEIGHT_GRADIENT[name]
        passes = {
            "forward": milliseconds(lambda x, w, f=forward: laid(f(geometry, taken(x), w)), x, w),
            "input gradient": milliseconds(lambda w, g, f=to_input: laid(f(geometry, w, taken(g), (size, size))), w, g),
            "weight gradient": milliseconds(
                lambda x, g, f=to_weights: f(geometry, taken(x), taken(g), (kernel, kernel)), x, g
            ),
        }
        rows.append({"layer": layer, "lowering": name, **passes})
        texts = " / ".join(f"{value:.3f}" for value in passes.values())
        print(
            f"{n_in:4d} -> {n_out:3d}, {size}x{size}, {kernel}x{kernel}, stride {stride}: {name:9s} {texts}", flush=True
        )
    return rows


def columns(n_images: int) -> None:
    """Prints the table of narrow layers."""
    rng = np.random.default_rng(0)
    geometry = Geometry((1, 1), ((1, 1), (1, 1)))
    for n_in, n_out, size in NARROW:
        x = jnp.asarray(rng.standard_normal((n_images, size, size, n_in), np.float32))
        w = jnp.asarray(rng.standard_normal((3, 3, n_in, n_out), np.float32))
        times = [milliseconds(lambda x, w, n=n: by_columns(geometry, x, w, n), x, w) for n in (1, 2, 4)]
        print(f"{n_in:4d} -> {n_out:2d}, {size}x{size}: {' / '.join(f'{ms:.1f}' for ms in times)} ms", flush=True)


def weight_gradients(n_images: int) -> None:
    """Prints the table of weight gradients."""
    rng = np.random.default_rng(0)
    geometry = Geometry((1, 1), ((1, 1), (1, 1)))
    for n_in, n_out, size in SQUARE:
        x = jnp.asarray(rng.standard_normal((n_images, size, size, n_in), np.float32))
        g = jnp.asarray(rng.standard_normal((n_images, size, size, n_out), np.float32))

        def as_it_is(x: jax.Array, g: jax.Array) -> jax.Array:
            return weight_gradient_of(
                lambda geometry, x, w: plain(geometry, x[0], w[0])[None], geometry, x[None], g[None], (3, 3)
            )

        def rows_apart(x: jax.Array, g: jax.Array) -> jax.Array:
            return spread_weight_gradient(geometry, images_last(x), g)

        times = milliseconds(as_it_is, x, g), milliseconds(rows_apart, x, g)
        print(f"{n_in:4d} -> {n_out:2d}, {size}x{size}: {' / '.join(f'{ms:.1f}' for ms in times)} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--kernel", type=int, help="only layers whose kernels have this height and width")
    parser.add_argument("--columns", action="store_true", help="narrow layers on a CPU instead")
    parser.add_argument("--weight-gradients", action="store_true", help="weight gradients on a CPU instead")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.columns:
        columns(options.images)
        return
    if options.weight_gradients:
        weight_gradients(options.images)
        return
    recording = Recording(
        "convolution-lowerings", "python benchmarks/convolution_lowerings.py", ("layer", "lowering"), options.out
    )
    for layer in LAYERS:
        if options.kernel in (None, layer[3]):
            for row in layer_rows(layer, options.members, options.images):
                recording.add(row)


if __name__ == "__main__":
    main()

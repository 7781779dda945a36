"""Five inputs for every column of a standardised table: the number itself, bounded, and a ramp for each quarter.

  z → z / √(1 + (z/3)²),  and of that  min(max((z - a) / (b - a), 0), 1) - ½  for neighbours a, b of the knots

A perceptron is slow to learn that something changes where one column passes a value, which is what a tree begins with;
a ramp makes it one weight (piecewise-linear encoding: Gorishniy, Rubachev and Babenko, *On embeddings for numerical
features in tabular deep learning*, 2022). Columns come standardised, so the knots need no data: ±0.67 are the quartiles
of a normal distribution. Bounding keeps one far value from deciding everything (Holzmüller, Grinsztajn and Steinwart,
*Better by default*, 2024). benchmarks/table_inputs.py measures what both are worth.
"""

from __future__ import annotations

import itertools

import jax.numpy as jnp
from jax import Array

BOUND, FARTHEST = 3.0, 1e6
KNOTS = (-2.0, -0.67, 0.0, 0.67, 2.0)
# Of more columns each says less by itself, and the first layer would cost five times as much.
MOST_COLUMNS = 60


def ramped(x: Array) -> Array:
    """`[B, F] -> [B, 5 F]`: all columns bounded, then all first ramps, all second ones, …"""
    # The square of what is farther could be infinite, and the quotient 0.
    x = jnp.minimum(jnp.maximum(x, -FARTHEST), FARTHEST)
    bounded = x / jnp.sqrt(1.0 + jnp.square(x / BOUND))
    ramps = [jnp.minimum(jnp.maximum((bounded - a) / (b - a), 0.0), 1.0) - 0.5 for a, b in itertools.pairwise(KNOTS)]
    return jnp.concatenate([bounded, *ramps], axis=-1)


def wants_ramps(row_shape: tuple[int, ...]) -> bool:
    """Whether a perceptron for standardised rows of this shape gets ramps where nobody said otherwise."""
    return len(row_shape) == 1 and row_shape[0] <= MOST_COLUMNS

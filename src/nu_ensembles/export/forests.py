"""A companion's forest in JAX: every row goes down all trees at once, as many steps as the deepest tree has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.companion import Companion, Forest
from nu_ensembles.export.calibrators import log_probability, scaled


def pooled(companion: Companion, networks: Array, x: Array) -> Array:
    """`companion.pooled`: p ∝ networks^(1 - weight) · forest^weight, `[N, C]`."""
    weighted = (1.0 - companion.weight) * log_probability(networks)
    return jax.nn.softmax(weighted + companion.weight * log_probability(_probabilities(companion.forest, x)), axis=-1)


def _probabilities(forest: Forest, x: Array) -> Array:
    trees = forest.trees
    n_trees, n_classes = len(trees.roots), forest.n_classes
    left, right, feature, leaf = (jnp.asarray(each) for each in (trees.left, trees.right, trees.feature, trees.leaf))
    threshold = jnp.asarray(_comparable(trees.threshold))
    node = jnp.broadcast_to(jnp.asarray(trees.roots), (x.shape[0], n_trees))
    for _ in range(_depth(forest)):
        goes_left = jnp.take_along_axis(x, feature[node], axis=1) <= threshold[node]
        node = jnp.where(goes_left, left[node], right[node])
    values = jnp.asarray(trees.values.astype(np.float32))
    votes = jnp.sum(values[leaf[node]], axis=1)
    return scaled((votes + 1.0) / (n_trees + n_classes), forest.temperature)


def _comparable(threshold: np.ndarray) -> np.ndarray:
    """Thresholds in float32 that part float32 numbers as the float64 ones do: rounded down."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _depth(forest: Forest) -> int:
    """Steps from a root to the farthest leaf."""
    trees, nodes, steps = forest.trees, np.unique(forest.trees.roots), 0
    while True:
        following = np.unique(np.concatenate([trees.left[nodes], trees.right[nodes]]))
        if np.array_equal(following, nodes):
            return steps
        nodes, steps = following, steps + 1

"""Networks as rows of one matrix: how a training keeps copies of them on its way, and what SWAG computes with."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def parameter_rows(params: Any, n_networks: int) -> np.ndarray:
    """The parameters of the first networks as a matrix in host memory, `[n_networks, P]`.

    Args:
      params: a tree with leaves `[R, …]`.
    """
    leaves = [np.asarray(leaf)[:n_networks].reshape(n_networks, -1) for leaf in jax.tree.leaves(params)]
    return np.concatenate(leaves, axis=1)


def parameters_from_rows(rows: np.ndarray, like: Any) -> Any:
    """The inverse: rows `[K, P]` as a tree with leaves `[K, …]`.

    Args:
      like: parameters of the same network, any number of them.
    """
    leaves, structure = jax.tree.flatten(like)
    sizes = [int(np.prod(leaf.shape[1:])) for leaf in leaves]
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
    shaped = [
        part.reshape(len(rows), *leaf.shape[1:]).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, shaped)

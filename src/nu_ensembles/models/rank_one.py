"""K networks that share their kernels, each times a rank-one matrix of its own, as one network that is trained.

W_k = W * (r_k s_k')        r_k over the inputs of a layer, s_k over its outputs; biases are each network's own
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.model import Model

# Folded into the key of a network's weights, for the signs.
SIGNS = np.uint32(0xFFFFFFFD)


def rank_one(inner: Model, n_members: int, negative: float) -> Model:
    """The members as one network: in training the first rows are the first member's, the next ones the second's, …

    Its variables are `{"params": {"shared": …, "fast": …}}`: those of the network inside, in which all but kernels has
    an axis of members, and r `[K, in]` and s `[K, out]` for each kernel by its number. When it predicts it is the mean
    of its members on every row.

    Args:
      inner: a network without mutable state, whose kernels have their inputs and outputs last.
      n_members: K.
      negative: how probably an entry of r or s is -1 at first, else 1.
    """

    def init(key: Array, x: Array) -> Any:
        leaves, structure = jax.tree.flatten(inner.init(key, x))
        fast = {}
        for number, leaf in enumerate(leaves):
            if leaf.ndim < 2:
                leaves[number] = jnp.broadcast_to(leaf, (n_members, *leaf.shape))
                continue
            keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, SIGNS), number))
            fast[str(number)] = {
                name: 1 - 2 * jax.random.bernoulli(each, negative, (n_members, size)).astype(leaf.dtype)
                for name, each, size in zip(("r", "s"), keys, leaf.shape[-2:], strict=True)
            }
        return {"params": {"shared": jax.tree.unflatten(structure, leaves), "fast": fast}}

    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Array:
        members = members_of(variables["params"])
        if train:
            # The last member may have fewer rows; what fills them up is computed and not looked at.
            each = -(-len(x) // n_members)
            rows = x[np.arange(n_members * each) % len(x)].reshape(n_members, each, *x.shape[1:])
        else:
            rows = jnp.broadcast_to(x, (n_members, *x.shape))
        keys = None if key is None else jax.random.split(key, n_members)

        def one(params: Any, rows: Array, key: Array | None) -> Array:
            return inner.apply(params, rows, key=key, train=train)

        logits = jax.vmap(one, in_axes=(0, 0, None if keys is None else 0))(members, rows, keys)
        if train:
            return logits.reshape(-1, logits.shape[-1])[: len(x)]
        return jax.nn.logsumexp(jax.nn.log_softmax(logits), axis=0) - math.log(n_members)

    return Model(init, apply)


def members_of(params: Any) -> Any:
    """The members as networks like the one inside: its variables, every leaf with an axis of members in front.

    Args:
      params: `{"shared": …, "fast": …}`, see `rank_one`.
    """
    leaves, structure = jax.tree.flatten(params["shared"])
    for number, fast in params["fast"].items():
        leaf = leaves[int(number)]
        between = (1,) * (leaf.ndim - 2)
        r, s = fast["r"].reshape(-1, *between, leaf.shape[-2], 1), fast["s"].reshape(-1, *between, 1, leaf.shape[-1])
        leaves[int(number)] = leaf * r * s
    return jax.tree.unflatten(structure, leaves)

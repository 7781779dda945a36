"""Random labels for unlabelled points (Algorithm 1, line 4).

Every unlabelled point draws K labels from {0, …, c-1} without replacement and hands one to each member, so
no two of up to c members are ever asked to fit the same label on the same point.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.problem.seeds import random_key

MOST_LABELS = 1 << 31


def random_labels(seed: int | Array, n_points: int, n_classes: int, n_members: int) -> Array:
    """Draws the label that each member fits on each unlabelled point.

    With more members than classes, every consecutive block of `n_classes` members is one permutation. Members
    0 … k-1 get the same labels whatever the number of members.

    The published labels are those of seed 100 under `jax.threefry_partitionable(False)`, the generator layout
    of the authors' time.

    Args:
      seed: a whole number or a `jax.random` key.
      n_points: how many unlabelled points (m).
      n_classes: how many classes (c).
      n_members: how many members (K).

    Returns:
      int32 `[n_members, n_points]`.
    """
    n_points = check_whole(n_points, "n_points", least=0)
    n_classes, n_members = check_whole(n_classes, "n_classes"), check_whole(n_members, "n_members")
    if n_points * (n_members + n_classes) > MOST_LABELS:
        raise InputError(
            f"{n_points} points with {n_members} labels each of {n_classes} classes are more than fit into "
            "memory; draw them in parts."
        )
    return _drawn(random_key(seed), n_points, n_classes, n_members)


# Compiled as a whole: its operations one by one would be ten small programs.
@partial(jax.jit, static_argnums=(1, 2, 3))
def _drawn(key: Array, n_points: int, n_classes: int, n_members: int) -> Array:
    n_blocks = -(-n_members // n_classes)
    ranked = jnp.tile(jnp.arange(n_classes, dtype=jnp.int32)[:, None], (1, n_points))
    # The first block uses the key itself, so that up to n_classes members match the published labels.
    later = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(1, n_blocks))
    # independent=True shuffles each column on its own; without it every point would get the same order.
    shuffled = partial(jax.random.permutation, x=ranked, axis=0, independent=True)
    blocks = jax.vmap(shuffled)(jnp.concatenate([key[None], later]))
    return blocks.reshape(n_blocks * n_classes, n_points)[:n_members]

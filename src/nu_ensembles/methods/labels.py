"""Random labels for unlabelled points (Algorithm 1, line 4).

Every unlabelled point draws K labels from {0, …, c-1} without replacement and hands one to each member, so
no two of up to c members are ever asked to fit the same label on the same point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import check_whole, checked
from nu_ensembles.errors import InputError
from nu_ensembles.models.masks import drawn_by_place, threefry2x32
from nu_ensembles.problem.seeds import random_key

MOST_LABELS = 1 << 31
# Points whose labels are drawn at a time, so that few sizes reach the compiler.
POINTS_AT_ONCE = 1 << 14
# Classes whose draws are compared, all with all, instead of sorted.
MOST_COMPARED = 12

TargetsAt = Callable[[np.ndarray], np.ndarray]


@checked
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


def random_labels_at(key: Array, n_points: int, n_classes: int, n_members: int) -> TargetsAt:
    """`random_labels` of a few points at a time: a function from their numbers `[P]` to int32 `[n_members, P]`.

    A point's labels depend on its place and on how many points there are (m), not on the other points' labels.
    """
    if not drawn_by_place():
        labels = np.asarray(random_labels(key, n_points, n_classes, n_members))
        return lambda points: labels[:, points]
    words = jax.random.key_data(key)

    def at(points: np.ndarray) -> np.ndarray:
        found = [np.zeros((n_members, 0), np.int32)]
        for start in range(0, len(points), POINTS_AT_ONCE):
            part = np.asarray(points[start : start + POINTS_AT_ONCE], np.int64)
            padded = np.concatenate([part, np.zeros(POINTS_AT_ONCE - len(part), np.int64)])
            # The places of a point's draws among all n_classes * n_points, in two words.
            places = np.arange(n_classes, dtype=np.int64)[:, None] * n_points + padded
            two_words = (places >> 32).astype(np.uint32), (places & 0xFFFFFFFF).astype(np.uint32)
            drawn = _drawn_at(words, *two_words, n_rounds(n_classes * n_points), n_members)
            found.append(np.asarray(drawn)[:, : len(part)])
        return np.concatenate(found, axis=1)

    return at


def n_rounds(n_values: int) -> int:
    """How often `jax.random.permutation` sorts so many values, each time by new draws."""
    return math.ceil(3 * np.log(max(1, n_values)) / np.log(np.iinfo(np.uint32).max))


@partial(jax.jit, static_argnums=(3, 4))
def _drawn_at(words: Array, high: Array, low: Array, rounds: int, n_members: int) -> Array:
    """The columns of `_drawn` whose draws stand in places (`high`, `low`), uint32 `[n_classes, P]` each."""
    n_classes, key = high.shape[0], jax.random.wrap_key_data(words, impl="threefry2x32")
    n_blocks = -(-n_members // n_classes)
    later = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(1, n_blocks))

    def one_block(key: Array) -> Array:
        labels = jnp.tile(jnp.arange(n_classes, dtype=jnp.int32)[:, None], (1, high.shape[1]))
        for _ in range(rounds):
            key, subkey = jax.random.split(key)
            first, second = jax.random.key_data(subkey)
            draws = threefry2x32((first, second), (high, low))
            labels = _sorted_by(draws[0] ^ draws[1], labels)
        return labels

    blocks = jax.vmap(one_block)(jnp.concatenate([key[None], later]))
    return blocks.reshape(n_blocks * n_classes, high.shape[1])[:n_members]


def _sorted_by(draws: Array, labels: Array) -> Array:
    """The labels in the order of their draws, both `[n_classes, P]`; among equals the first stays in front.

    Of few classes by comparing all with all, which on a CPU takes a tenth of the time of many small sorts.
    """
    n_classes = len(labels)
    if n_classes > MOST_COMPARED:
        return jax.lax.sort_key_val(draws, labels, dimension=0)[1]
    numbers = range(n_classes)
    rank = [
        sum((draws[j] <= draws[i] if j < i else draws[j] < draws[i]).astype(jnp.int32) for j in numbers if j != i)
        for i in numbers
    ]
    return jnp.stack([sum(jnp.where(rank[i] == place, labels[i], 0) for i in numbers) for place in numbers])

"""A network's many small parameters as one vector, so that the optimiser handles them in one pass.

A wide ResNet has some fifty scalars and biases; on a GPU an update of each is a kernel of its own that takes longer
to start than to run. AdamW treats every number alike, so it does not care how they are laid out. Optimisers that the
user brings may care, and get the tree as it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

# Numbers a leaf may have to be packed; larger ones fill a kernel by themselves.
SMALL = 4096


@dataclasses.dataclass(frozen=True)
class Packed:
    """A tree of arrays: its large leaves, and the small ones raveled into one vector `[S]`."""

    large: tuple[Any, ...]
    small: Array | None


jax.tree_util.register_dataclass(Packed, data_fields=["large", "small"], meta_fields=[])


def pack(tree: Any) -> Packed:
    """The tree of one lane in two parts."""
    leaves = jax.tree.leaves(tree)
    large = tuple(leaf for leaf in leaves if _is_large(leaf))
    small = [leaf.ravel() for leaf in leaves if not _is_large(leaf)]
    return Packed(large, jnp.concatenate(small) if small else None)


def _is_large(leaf: Any) -> bool:
    return leaf.size > SMALL


def unpack(packed: Packed, like: Any) -> Any:
    """The tree of one lane again; `like` is any tree of the same structure and shapes."""
    templates, structure = jax.tree.flatten(like)
    large = iter(packed.large)
    leaves, start = [], 0
    for template in templates:
        if _is_large(template):
            leaves.append(next(large))
        else:
            assert packed.small is not None
            leaves.append(packed.small[start : start + template.size].reshape(template.shape))
            start += template.size
    return jax.tree.unflatten(structure, leaves)

"""Trees of arrays as flat dictionaries with '/'-joined names, the form in which a file keeps them.

`flatten`/`unflatten` are for nested dicts and lists (a network's variables); `flatten_like`/`unflatten_like`
are for any JAX pytree (an optimiser's state), which comes back in the structure of a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nu_ensembles.errors import DamagedFileError, InputError


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Names every array of nested dicts, lists and tuples by its '/'-joined path.

    An empty dict or list holds no array and so leaves no name behind.
    """
    flat: dict[str, np.ndarray] = {}

    def visit(node: Any, path: tuple[str, ...]) -> None:
        if isinstance(node, Mapping):
            for key, child in node.items():
                visit(child, (*path, _without_slash(key)))
        elif isinstance(node, list | tuple):
            for position, child in enumerate(node):
                visit(child, (*path, str(position)))
        elif path:
            flat["/".join(path)] = np.asarray(node)
        else:
            raise InputError("A tree of arrays must be a dict, list or tuple: give a single array a name.")

    visit(tree, ())
    return flat


def unflatten(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Nested dicts from '/'-joined names; what was a list comes back as a dict with keys "0", "1", …"""
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        *groups, leaf = name.split("/")
        node: Any = tree
        for group in groups:
            node = node.setdefault(group, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict) or leaf in node:
            raise DamagedFileError(
                f"The saved name {name!r} is both an array and a group of arrays: save the model again."
            )
        node[leaf] = array
    return tree


def flatten_like(tree: Any) -> dict[str, np.ndarray]:
    """Names every leaf of a pytree by its '/'-joined key path; random keys are kept as their words."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        _path_name(path): np.asarray(jax.random.key_data(leaf) if _is_random_key(leaf) else leaf)
        for path, leaf in leaves
    }


def unflatten_like(flat: Mapping[str, np.ndarray], template: Any, what: str = "The saved state") -> Any:
    """Puts the arrays of `flatten_like` back into the structure of `template`.

    Args:
      flat: the arrays by name.
      template: a pytree of arrays or `jax.ShapeDtypeStruct` with the names, shapes and types to expect.
      what: names the source in errors, e.g. "The checkpoint run/step-100".

    Returns:
      The template's structure with arrays of `flat` as leaves.
    """
    import jax

    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {_path_name(path): leaf for path, leaf in paths}
    problems = [f"{name!r} is missing" for name in expected if name not in flat]
    problems += [f"{name!r} is not expected" for name in flat if name not in expected]
    for name in expected.keys() & flat.keys():
        want, found = _stored_form(expected[name]), flat[name]
        if (found.shape, found.dtype) != (want.shape, want.dtype):
            problems.append(f"{name!r} is {found.dtype}{list(found.shape)} instead of {want.dtype}{list(want.shape)}")
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise DamagedFileError(
            f"{what} does not fit here ({'; '.join(sorted(problems)[:3])}{more}): "
            "use the model and the settings that it was saved with, or start anew."
        )
    leaves = [_restored(flat[name], leaf) for name, leaf in expected.items()]
    return jax.tree_util.tree_unflatten(structure, leaves)


def _path_name(path: tuple[Any, ...]) -> str:
    from jax.tree_util import keystr

    return "/".join(_without_slash(keystr((part,), simple=True)) for part in path)


def _without_slash(key: object) -> str:
    if not isinstance(key, str) or "/" in key:
        raise InputError(f"The name {key!r} in a tree of arrays cannot be saved: use text without '/'.")
    return key


def _is_random_key(leaf: Any) -> bool:
    import jax

    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored_form(leaf: Any) -> Any:
    """Something with the shape and type that `flatten_like` gives a leaf."""
    import jax

    if _is_random_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf if hasattr(leaf, "dtype") else np.asarray(leaf)


def _restored(array: np.ndarray, leaf: Any) -> Any:
    import jax

    if not _is_random_key(leaf):
        return array
    # A ShapeDtypeStruct does not tell its generator; all keys of this package are threefry.
    impl = jax.random.key_impl(leaf) if isinstance(leaf, jax.Array) else "threefry2x32"
    return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=impl)

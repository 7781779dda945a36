"""An Equinox module as a `Model`.

Equinox modules are written for one sample and are pytrees that mix arrays with functions and flags. The
adapter maps them over the batch, keeps the arrays as nested dicts named by their paths, and remembers
everything else once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import Array

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.models.adapting import accepted_arguments, adapted, always, check_method, train_flags
from nu_ensembles.models.model import Model, split_variables


@checked
def from_equinox(
    factory: Callable[[Array], Any], *, features_method: str | None = None, axis_name: str = "batch"
) -> Model:
    """Wraps an Equinox module whose `__call__` takes one sample and returns its logits `[C]`.

    Floating-point arrays are trained; other arrays are kept as they are. `key=` is passed, one key a sample,
    if `__call__` takes it. Modules with stateful layers (`eqx.nn.BatchNorm`) are called as `module(x, state)`
    and return `(logits, state)`, as Equinox has it.

    Args:
      factory: `lambda key: Net(…, key=key)`; one made by `eqx.nn.make_with_state` will do as well. A module
        that already holds weights is accepted with a warning: then all members start from the same weights.
      features_method: name of a method that takes what `__call__` takes and returns what enters the last
        layer, `[F]`; with stateful layers it returns `(features, state)`.
      axis_name: of the batch, as the module's batch normalisation layers know it.
    """
    try:
        import equinox as eqx
    except ImportError as error:
        raise MissingExtraError("models.from_equinox", "equinox") from error

    again = partial(from_equinox, factory, features_method=features_method, axis_name=axis_name)
    if isinstance(factory, eqx.Module):
        factory = always(factory, "lambda key: Net(key=key)")
    elif not callable(factory):
        raise InputError(f"from_equinox takes a factory such as lambda key: Net(key=key), not {shown(factory)}.")
    make = _with_state(factory)
    template, state_template = eqx.filter_eval_shape(make, jax.random.key(0))
    if not callable(template):
        raise InputError("from_equinox takes a factory that returns a callable eqx.Module; this one does not.")
    check_method(template, features_method)
    layout = _Layout((template, state_template))
    stateful = bool(jax.tree.leaves(state_template))

    def init(key: Array, x: Array) -> dict[str, Any]:
        return layout.arrays(make(key))

    def forward(method: str, variables: Any, x: Array, key: Array | None, train: bool) -> tuple[Array, Any]:
        module, state = layout.rebuild(variables)
        bound = getattr(eqx.nn.inference_mode(module, value=not train), method)
        accepted = accepted_arguments(bound)
        flags = train_flags(accepted, train, key is not None)

        def one_sample(sample: Array, state: Any, key: Array | None) -> tuple[Array, Any]:
            arguments = {**flags, "key": key} if "key" in accepted else flags
            return bound(sample, state, **arguments) if stateful else (bound(sample, **arguments), state)

        keys, key_axis = (None, None) if key is None else (jax.random.split(key, x.shape[0]), 0)
        mapped = jax.vmap(one_sample, in_axes=(0, None, key_axis), out_axes=(0, None), axis_name=axis_name)
        output, state = mapped(x, state, keys)
        return output, split_variables(layout.arrays((module, state)))[1]

    return adapted(init, forward, features_method, made_by=again)


def _with_state(factory: Callable[[Array], Any]) -> Callable[[Array], tuple[Any, Any]]:
    """A factory of (module, state) pairs; the state is empty where the module has none."""
    import equinox as eqx

    def make(key: Array) -> tuple[Any, Any]:
        made = factory(key)
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], eqx.nn.State):
            return made
        return eqx.nn.make_with_state(lambda: made)()

    return make


class _Layout:
    """Where each leaf of a (module, state) pair lives in the variables; what is no array is kept here."""

    def __init__(self, template: Any) -> None:
        paths, self.structure = jax.tree_util.tree_flatten_with_path(template)
        self.leaves = [leaf for _, leaf in paths]
        self.names = [self._name(path, leaf) for path, leaf in paths]

    @staticmethod
    def _name(path: tuple[Any, ...], leaf: Any) -> tuple[str, ...] | None:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return None
        part, *names = (jax.tree_util.keystr((entry,), simple=True) for entry in path)
        if part == "1":
            return ("state", *names)
        return ("params" if jnp.issubdtype(leaf.dtype, jnp.inexact) else "buffers", *names)

    def arrays(self, module_and_state: Any) -> dict[str, Any]:
        """The pair's arrays as nested dicts: `"params"` are trained, `"buffers"` and `"state"` are not."""
        leaves = zip(self.names, jax.tree.leaves(module_and_state), strict=True)
        return unflatten_dict({name: leaf for name, leaf in leaves if name is not None})

    def rebuild(self, variables: Any) -> Any:
        """The pair that holds these arrays."""
        arrays = flatten_dict(variables)
        pairs = zip(self.names, self.leaves, strict=True)
        leaves = [leaf if name is None else arrays[name] for name, leaf in pairs]
        return jax.tree.unflatten(self.structure, leaves)

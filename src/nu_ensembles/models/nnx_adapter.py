"""A Flax NNX module as a `Model`.

NNX modules carry their arrays and random streams inside them. The adapter remembers the module's structure
once, without arrays, and merges a fresh module from it in every call, so nothing leaks between traces or
members.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import Array
from jax.core import Tracer

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.adapting import accepted_arguments, adapted, always, check_method, train_flags
from nu_ensembles.models.model import Model, split_variables

Path = tuple[Any, ...]


@checked
def from_nnx(factory: Any, *, features_method: str | None = None) -> Model:
    """Wraps an NNX module whose `__call__` takes a batch `x[B, …]` and returns logits `[B, C]`.

    `Param` variables are trained; all others but the random streams' are state. Training and prediction use
    the module's own `train()` and `eval()`, and set the usual flags where `__call__` takes them. Random
    streams start anew from `key` in every call (and `rngs=` is passed where `__call__` takes it); without a
    key dropout is off.

    Args:
      factory: `lambda rngs: Net(…, rngs=rngs)`, or a class that takes only `rngs`. A module that already
        holds weights is accepted with a warning: then all members start from the same weights.
      features_method: name of a method that takes what `__call__` takes and returns what enters the last
        layer, `[B, F]`.
    """
    from flax import nnx

    again = functools.partial(from_nnx, factory, features_method=features_method)
    if isinstance(factory, nnx.Module):
        make = always(factory, "lambda rngs: Net(rngs=rngs)")
    elif callable(factory):
        make = _called_with_rngs(factory)
    else:
        raise InputError(f"from_nnx takes a factory such as lambda rngs: Net(rngs=rngs), not {shown(factory)}.")
    template = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    if not isinstance(template, nnx.Module):
        raise InputError("from_nnx takes a factory that returns an nnx.Module; this one returns something else.")
    _refuse_bare_arrays(template)
    check_method(template, features_method)
    layout = {path: _collection(leaf) for path, leaf in nnx.to_flat_state(nnx.state(template))}
    streams = {
        path: leaf.get_value() for path, leaf in nnx.to_flat_state(nnx.state(template)) if layout[path] == "rngs"
    }

    @functools.cache
    def structure(train: bool, has_key: bool) -> Any:
        """The module without arrays, its layers set to the mode."""
        module = nnx.clone(template)
        module.train() if train else module.eval()
        if not has_key:
            module.set_attributes(deterministic=True, raise_if_not_found=False)
        return nnx.split(module)[0]

    def arrays(module: Any) -> dict[str, Any]:
        """The module's arrays by collection, as nested dicts; random streams are left out."""
        leaves = nnx.to_flat_state(nnx.state(module))
        return unflatten_dict(
            {(layout[path], *_names(path)): _value(leaf) for path, leaf in leaves if layout[path] != "rngs"}
        )

    def init(key: Array, x: Array) -> dict[str, Any]:
        return arrays(make(nnx.Rngs(key)))

    def forward(method: str, variables: Any, x: Array, key: Array | None, train: bool) -> tuple[Array, Any]:
        given = flatten_dict(variables)
        values = {path: given[name, *_names(path)] for path, name in layout.items() if name != "rngs"}
        values |= _restarted(streams, key)
        module = nnx.merge(structure(train, key is not None), nnx.from_flat_state(values), copy=True)
        bound = getattr(module, method)
        accepted = accepted_arguments(bound)
        arguments: dict[str, Any] = dict(train_flags(accepted, train, key is not None))
        if "rngs" in accepted and key is not None:
            arguments["rngs"] = nnx.Rngs(jax.random.fold_in(key, len(streams)))
        return bound(x, **arguments), split_variables(arrays(module))[1]

    return adapted(init, forward, features_method, made_by=again)


def _called_with_rngs(factory: Callable[..., Any]) -> Callable[[Any], Any]:
    """The factory as a function of one positional argument; many modules take `rngs` by keyword only."""
    # NNX's metaclass hides the signature of a class.
    accepted = accepted_arguments(factory.__init__ if isinstance(factory, type) else factory)
    return (lambda rngs: factory(rngs=rngs)) if "rngs" in accepted else factory


def _refuse_bare_arrays(template: Any) -> None:
    """NNX makes an array outside Variables a constant of the structure, here one of a trace long gone."""
    from flax import nnx

    for path, module in nnx.iter_modules(template):
        for name, value in vars(module).items():
            if isinstance(value, Tracer):
                where = ".".join([*_names(path), name])
                raise InputError(
                    f"The NNX module's attribute {where} is a bare array; wrap it in nnx.Param if it is to "
                    "be trained, in nnx.Variable if not."
                )


def _collection(leaf: Any) -> str:
    from flax import nnx

    if isinstance(leaf, nnx.RngState):
        return "rngs"
    return "params" if isinstance(leaf, nnx.Param) else "state"


def _value(leaf: Any) -> Any:
    """A Variable's array; what is marked `nnx.data` but is no Variable stands for itself."""
    return leaf.get_value() if hasattr(leaf, "get_value") else leaf


def _names(path: Path) -> tuple[str, ...]:
    # Lists of layers have whole numbers in their paths; names in a saved file are strings.
    return tuple(str(part) for part in path)


def _restarted(streams: dict[Path, Any], key: Array | None) -> dict[Path, Array]:
    """Values for the keys and counters of the module's random streams, each stream with a key of its own."""
    # Without a key the layers are deterministic and nothing is drawn from this one.
    root = jax.random.key(0) if key is None else key
    if not jnp.issubdtype(root.dtype, jax.dtypes.prng_key):
        root = jax.random.wrap_key_data(root)
    values: dict[Path, Array] = {}
    for i, (path, abstract) in enumerate(streams.items()):
        if jnp.issubdtype(abstract.dtype, jax.dtypes.prng_key):
            own = jax.random.fold_in(root, i)
            values[path] = jax.random.split(own, abstract.shape) if abstract.shape else own
        else:
            values[path] = jnp.zeros(abstract.shape, abstract.dtype)
    return values

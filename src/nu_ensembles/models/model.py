"""What the engine knows of a network: two pure functions, written for one member.

`init` draws a member's variables and `apply` turns a batch into logits; the engine adds the axis of members
with `jax.vmap`, differentiates, and knows nothing of Flax, NNX or Equinox.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jax import Array

from nu_ensembles.errors import InputError


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """How a built-in network was made: enough to make it again from a file.

    Attributes:
      name: of the builder in `nu_ensembles.models`.
      n_classes: length of the logits.
      options: `(option, value)` pairs in alphabetical order, defaults included, values hashable.
    """

    name: str
    n_classes: int
    options: tuple[tuple[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON knows it: tuples become lists."""
        options = {key: list(value) if isinstance(value, tuple) else value for key, value in self.options}
        return {"name": self.name, "n_classes": self.n_classes, "options": options}


@dataclasses.dataclass(frozen=True)
class Model:
    """A network as two pure functions. Hashable, so that it can be a static argument of a jitted function.

    Attributes:
      init: `init(key, x[B, …]) -> variables`, a pytree of arrays. In a dict with the key `"params"` that
        entry is trained and the others (batch statistics, say) are mutable state; anything else is trained as
        a whole.
      apply: `apply(variables, x[B, …], *, key, train) -> logits[B, C]`, or `(logits, new_state)` when `train`
        and the variables hold state. `key` may be None where nothing random happens.
      features: `features(variables, x, *, key, train) -> [B, F]`, what enters the last layer; needed by methods
        that look at features (DICE). With the same key it draws what `apply` draws.
      spec: how a built-in network was made; None for a network of the user's own.
      apply_with_features: `(what apply returns, features)` from one pass; without it such methods call both, and
        pay for two backward passes.
      made_by: makes an adapter's model again, for `pickle`, which knows nothing of functions inside functions.
    """

    init: Callable[..., Any]
    apply: Callable[..., Any]
    features: Callable[..., Any] | None = None
    spec: ModelSpec | None = None
    apply_with_features: Callable[..., Any] | None = None
    made_by: Callable[[], Model] | None = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for field in ("init", "apply"):
            if not callable(getattr(self, field)):
                raise InputError(
                    f"Model({field}=…) must be a function, not a {type(getattr(self, field)).__name__}; "
                    "for a Flax or Equinox module use models.from_linen, from_nnx or from_equinox."
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        # A value: scikit-learn's clone() gets the same object back, and with it the compiled programs.
        return self

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        if self.spec is not None:
            from nu_ensembles.models.registry import from_spec

            return from_spec, (self.spec,)
        if self.made_by is not None:
            return _made, (self.made_by,)
        return Model, (self.init, self.apply, self.features, None, self.apply_with_features)


def _made(again: Callable[[], Model]) -> Model:
    return again()


def logits_and_features(model: Model, variables: Any, x: Array, *, key: Array | None, train: bool) -> tuple[Any, Array]:
    """What `model.apply` returns, and what enters the last layer, `[B, F]`.

    Args:
      model: the network.
      variables: what its `init` drew.
      x: `[B, …]`.
      key: what dropout and the like draw from, or None.
      train: whether it is in training mode.

    Raises:
      InputError: the model does not say what enters its last layer.
    """
    if model.apply_with_features is not None:
        return model.apply_with_features(variables, x, key=key, train=train)
    if model.features is None:
        raise InputError(
            "This method looks at the features before the last layer, which the model does not expose; give them as "
            "nu.Model(init, apply, features=…), or name the module's method for them: from_linen(…, "
            "features_method=…), likewise from_nnx and from_equinox."
        )
    # The same key draws the same dropout masks, and the compiler computes what the two have in common once.
    output = model.apply(variables, x, key=key, train=train)
    return output, model.features(variables, x, key=key, train=train)


def split_variables(variables: Any) -> tuple[Any, Mapping[str, Any]]:
    """Parts what is trained from what a forward pass in training mode updates.

    The trained part of a dict with the key `"params"` stays under that key, `{"params": …}`: so
    `join_variables` can tell it from variables that have no collections at all.

    Args:
      variables: what `Model.init` draws.

    Returns:
      `(params, state)`; state is `{}` when there is none.
    """
    if not isinstance(variables, Mapping) or "params" not in variables:
        return variables, {}
    state = {name: value for name, value in variables.items() if name != "params"}
    return {"params": variables["params"]}, state


def join_variables(params: Any, state: Mapping[str, Any]) -> Any:
    """The inverse of `split_variables`: what `Model.apply` takes.

    Args:
      params: what is trained.
      state: what a forward pass in training mode updates; may be empty.
    """
    return {**params, **state} if state else params

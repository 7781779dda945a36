"""What a training method is to the engine: a loss, and what it needs around it.

One file in this folder is one method: a frozen dataclass of hyper-parameters with the names below, in this
order. Numbers that a search may vary are traced (declare the class with `@method("beta", …)`), so a new value
never compiles a new program and a grid of them can train side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform

import jax
from jax import Array

Shape = Literal["independent", "joint", "sequential"]


class Batch(NamedTuple):
    """What one member sees in one step. Under a joint method every array has a leading axis of members.

    x: `[B, …]`, labelled inputs; y: int `[B]`; weight: `[B]`, mean one over the training set.
    x_unlabeled: `[B', …]`, or None where the method takes no unlabelled data.
    y_unlabeled: int `[B']`, the labels that `unlabeled_targets` gave to this member, or None.
    previous: `[K, B', C]`, probabilities of the earlier members on `x_unlabeled` (sequential methods), of which
      the first `n_previous` are filled in.
    key: the step's own PRNG key, for methods that draw (mixup); under a joint method one key per member.
    """

    x: Array
    y: Array
    weight: Array
    x_unlabeled: Array | None = None
    y_unlabeled: Array | None = None
    previous: Array | None = None
    n_previous: Array | None = None
    key: Array | None = None


class Forward(Protocol):
    """The member's network in training mode: `forward(x, u)` -> logits of x, logits of u, in one pass."""

    def __call__(self, *inputs: Array) -> tuple[Array, ...]: ...


class Method(Protocol):
    """A way to train an ensemble."""

    name: ClassVar[str]
    # independent: members never meet. joint: one loss over all members, whose logits come as [K, B, C].
    # sequential: member after member, each seeing the predictions of the earlier ones on the unlabelled data.
    shape: ClassVar[Shape]
    uses_unlabeled: ClassVar[bool]

    def effective(self) -> Method:
        """The method whose program these hyper-parameters amount to: Nu(beta=0) is Standard()."""
        ...

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        """Labels for the unlabelled points, int32 `[n_members, n_points]`, drawn once; None if there are none."""
        ...

    def loss(self, forward: Forward, batch: Batch) -> Array:
        """What the member minimises (a joint method: what all minimise together); a scalar."""
        ...


class BaseMethod:
    """What most methods have in common: the program is their own, and unlabelled points get no labels."""

    def effective(self) -> Method:
        return self  # pyright: ignore[reportReturnType]  # name, shape and loss are the subclass's

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        return None


M = TypeVar("M", bound=type)


@dataclass_transform(frozen_default=True)
def method(*traced: str) -> Callable[[M], M]:
    """Makes a class a frozen dataclass and a JAX pytree whose `traced` fields are its leaves."""

    def register(cls: M) -> M:
        cls = dataclasses.dataclass(frozen=True)(cls)
        static = [field.name for field in dataclasses.fields(cls) if field.name not in traced]
        return jax.tree_util.register_dataclass(cls, data_fields=list(traced), meta_fields=static)

    return register


def hyper_parameters(chosen: Method) -> dict[str, Any]:
    """The method's hyper-parameters as plain values, for manifests and tables."""
    return {field.name: getattr(chosen, field.name) for field in dataclasses.fields(chosen)}  # pyright: ignore[reportArgumentType]

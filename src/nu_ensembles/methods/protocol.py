"""What a training method is to the engine: a loss, and what it needs around it.

One file in this folder is one method: a frozen dataclass of hyper-parameters with the names below, in this
order. Numbers that a search may vary are traced (declare the class with `@method("beta", …)`), so a new value
never compiles a new program and a grid of them can train side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from nu_ensembles.errors import InputError, shown
from nu_ensembles.methods.forward import Forward
from nu_ensembles.methods.labels import TargetsAt
from nu_ensembles.methods.trainer import TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.inspect import require_features

Shape = Literal["independent", "joint", "sequential"]


class Batch(NamedTuple):
    """What one member sees in one step. Under a joint method every array has a leading axis of members.

    Attributes:
      x: `[B, …]`, labelled inputs.
      y: int `[B]`.
      weight: `[B]`, mean one over the training set.
      x_unlabeled: `[B', …]`, or None where the method takes no unlabelled data.
      y_unlabeled: int `[B']`, the labels that `unlabeled_targets` gave to this member, or None.
      previous: `[K, B', C]`, probabilities of the earlier members on `x_unlabeled` (sequential methods).
      n_previous: how many of these are filled in, from the first on.
      key: the step's own PRNG key, for methods that draw (mixup); under a joint method one key per member.
      auxiliary: the method's own trainable parameters (see `Method.auxiliary`), empty where it has none.
      step: int32, how many steps were done before this one, for schedules; under a joint method one per member.
      n_rows: int32, how many labelled rows the member trains on; under a joint method one per member.
    """

    x: Array
    y: Array
    weight: Array
    x_unlabeled: Array | None = None
    y_unlabeled: Array | None = None
    previous: Array | None = None
    n_previous: Array | None = None
    key: Array | None = None
    auxiliary: Any = ()
    step: Array | None = None
    n_rows: Array | None = None

    def on_the_same_rows(self) -> Batch:
        """For joint methods that compare members point by point: every member gets the first one's rows.

        Labels that `unlabeled_targets` gave belong to a member's own rows, so they are left out.
        """

        def of_the_first(rows: Array) -> Array:
            return jnp.broadcast_to(rows[:1], rows.shape)

        u = None if self.x_unlabeled is None else of_the_first(self.x_unlabeled)
        x, y, weight = map(of_the_first, (self.x, self.y, self.weight))
        return self._replace(x=x, y=y, weight=weight, x_unlabeled=u, y_unlabeled=None)


class Method(Protocol):
    """A way to train an ensemble that is one loss. `BaseMethod` has what most of them have in common.

    Attributes:
      name: by which `EnsembleClassifier` and the command line know it.
      shape: "independent": members never meet. "joint": one loss over all members, whose logits come as `[K, B, C]`.
        "sequential": member after member, each seeing the predictions of the earlier ones on the unlabelled data.
      uses_unlabeled: whether the loss takes unlabelled data. Ask the instance: in some methods an option decides.
      uses_features: whether the loss looks at what enters the networks' last layer; its `forward` is then a
        `FeatureForward`.
      changes_rows: whether it blends or turns rows, which cannot be done to the pairs that sparse rows come as.
      is_one_training: whether one training is all there is to it, so that a longer one passes through every shorter
        one.
      is_independent: whether `shape` says so.
      is_joint: whether `shape` says so.
      is_sequential: whether `shape` says so.
      has_parameters: whether it trains parameters of its own, see `auxiliary`.
    """

    name: ClassVar[str]
    shape: ClassVar[Shape]
    uses_unlabeled: ClassVar[bool]
    uses_features: ClassVar[bool]
    changes_rows: ClassVar[bool]
    is_one_training: ClassVar[bool]
    is_independent: ClassVar[bool]
    is_joint: ClassVar[bool]
    is_sequential: ClassVar[bool]
    has_parameters: ClassVar[bool]

    @property
    def base(self) -> Method:
        """What each network minimises; a method that is one loss is its own base."""
        ...

    def effective(self) -> Method:
        """The method whose program these hyper-parameters amount to: Nu(beta=0) is Standard()."""
        ...

    def without_unlabeled(self) -> Any:
        """What takes the method's place on data without unlabelled rows; None if nothing does."""
        ...

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        """The network that is trained when the user gave this one; refuses one that will not do.

        Args:
          given: the user's network.
          row_shape: the shape of one input row.
        """
        ...

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        """Refuses data and options that it cannot work with, before anything is trained or written.

        Args:
          rows: what the user gave to train on.
          validated: whether the user gives validation rows.
          own_optimizer: whether the user's optimiser has its own learning rate and weight decay.
        """
        ...

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        """Labels for the unlabelled points, int32 `[n_members, n_points]`, drawn once; None if there are none.

        Args:
          key: what they are drawn from.
          n_points: how many unlabelled points (m).
          n_classes: how many classes (c).
          n_members: how many members (K).
        """
        ...

    def unlabeled_targets_at(self, key: Array, n_points: int, n_classes: int, n_members: int) -> TargetsAt | None:
        """The same labels of a few points at a time, for unlabelled rows that memory does not hold.

        Args:
          key: what they are drawn from.
          n_points: how many unlabelled points there are (m).
          n_classes: how many classes (c).
          n_members: how many members (K).

        Returns:
          a function from numbers of points `[P]` to their labels, int32 `[n_members, P]`; None if there are none.
        """
        ...

    def loss(self, forward: Forward, batch: Batch) -> Array:
        """What the member minimises (a joint method: what all minimise together); a scalar.

        Args:
          forward: the member's network in training mode: `forward(x, u)` gives the logits of x and of u.
          batch: what the member sees in this step.
        """
        ...

    def auxiliary(self, key: Array, n_features: int, n_classes: int) -> Any:
        """A member's share of the method's own trainable parameters (a discriminator, say), freshly drawn.

        The loss finds them in `Batch.auxiliary` and they descend its gradient along with the network; where they
        should ascend, or not feel a term, the loss says so with `stop_gradient`. An empty tree where there are none.

        Args:
          key: what they are drawn from.
          n_features: what the network's last layer takes in; 0 unless the method `uses_features`.
          n_classes: how many classes (c).
        """
        ...

    def auxiliary_optimiser(self) -> optax.GradientTransformation:
        """What updates them; hyper-parameters may be traced."""
        ...


class Carried:
    """What a loss and a procedure have in common: the network is the user's, and any data will do."""

    changes_rows: ClassVar[bool] = False

    def without_unlabeled(self) -> Any:
        return None

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        return given

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        pass


class BaseMethod(Carried):
    """What most methods have in common: the program is their own, unlabelled points get no labels, nothing but the
    network is trained, and of that only the logits matter.
    """

    shape: ClassVar[Shape] = "independent"
    uses_features: ClassVar[bool] = False
    is_one_training: ClassVar[bool] = True

    is_independent: ClassVar[bool]
    is_joint: ClassVar[bool]
    is_sequential: ClassVar[bool]
    has_parameters: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.is_independent, cls.is_joint, cls.is_sequential = (cls.shape == each for each in get_args(Shape))
        cls.has_parameters = cls.auxiliary is not BaseMethod.auxiliary

    @property
    def base(self) -> Method:
        return self  # pyright: ignore[reportReturnType]  # name and loss are the subclass's

    def effective(self) -> Method:
        return self  # pyright: ignore[reportReturnType]

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if self.uses_features:
            # A network that does not expose them is refused here, before anything is written.
            require_features(given, row_shape)
        return given

    def unlabeled_targets(self, key: Array, n_points: int, n_classes: int, n_members: int) -> Array | None:
        return None

    def unlabeled_targets_at(self, key: Array, n_points: int, n_classes: int, n_members: int) -> TargetsAt | None:
        whole = self.unlabeled_targets(key, n_points, n_classes, n_members)
        if whole is None:
            return None
        labels = np.asarray(whole)
        return lambda rows: labels[:, rows]

    def loss(self, forward: Forward, batch: Batch) -> Array:
        raise NotImplementedError

    def auxiliary(self, key: Array, n_features: int, n_classes: int) -> Any:
        return ()

    def auxiliary_optimiser(self) -> optax.GradientTransformation:
        return optax.identity()


M = TypeVar("M", bound=type)


@dataclass_transform(frozen_default=True)
def method(*traced: str) -> Callable[[M], M]:
    """Makes a class a frozen dataclass and a JAX pytree.

    Args:
      *traced: names of the fields that are its leaves: numbers whose new values compile nothing.
    """

    def register(cls: M) -> M:
        cls = dataclasses.dataclass(frozen=True)(cls)
        static = [field.name for field in dataclasses.fields(cls) if field.name not in traced]
        return jax.tree_util.register_dataclass(cls, data_fields=list(traced), meta_fields=static)

    return register


def hyper_parameters(chosen: Any) -> dict[str, Any]:
    """The hyper-parameters of a method (or procedure) as JSON knows them: tuples are lists.

    Args:
      chosen: the method.
    """
    if not dataclasses.is_dataclass(chosen) or isinstance(chosen, type):
        raise InputError(
            f"A method has hyper-parameters, and this is none: {shown(chosen)}; make one, as in Nu(beta=0.01)."
        )
    values = {field.name: getattr(chosen, field.name) for field in dataclasses.fields(chosen)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def is_zero(value: Any) -> bool:
    """Whether a hyper-parameter is the number zero, not a tracer that may turn out to be."""
    return isinstance(value, Real) and value == 0

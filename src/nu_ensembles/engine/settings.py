"""How lanes train, whatever the method: batch sizes, rates, augmentation, precision, plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

import jax
import optax

from nu_ensembles.checks import check_flag, check_name, check_positive, check_whole, shown
from nu_ensembles.engine.augmentation import Augmentation, augmentation_of, check_augmentation
from nu_ensembles.engine.plans import PLANS, check_plan
from nu_ensembles.engine.program import Program
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Method
from nu_ensembles.models import Model

# Rows of a step are numbered in 32 bits.
MOST_ROWS = 2**31 - 1
DTYPES = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How lanes train, whatever the method.

    Attributes:
      batch_size: labelled rows a member sees in a step.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate, weight_decay: of AdamW, constant.
      augment: a function, or its name; applied to labelled images; augment_unlabeled: to unlabelled ones too.
      optimiser: an optax optimiser instead of AdamW, with its own rate and decay.
      dtype: "float32", or "float64" under jax's x64 mode.
      plan: "auto", "vectorised", "sequential" or "sharded".
      deterministic: the same bits on every run on a GPU, too, where training is slower for it.
    """

    batch_size: int = 32
    unlabeled_batch_size: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    augment: str | Augmentation | None = None
    augment_unlabeled: bool = False
    optimiser: optax.GradientTransformation | None = None
    dtype: str = "float32"
    plan: str = "auto"
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "unlabeled_batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_whole(getattr(self, name), name, most=MOST_ROWS))
        for name in ("augment_unlabeled", "deterministic"):
            object.__setattr__(self, name, check_flag(getattr(self, name), name))
        check_positive(self.learning_rate, "learning_rate")
        check_positive(self.weight_decay, "weight_decay", zero_allowed=True)
        check_name(self.dtype, "dtype of training", DTYPES)
        if self.dtype == "float64" and not jax.config.read("jax_enable_x64"):
            raise InputError('dtype="float64" needs jax.config.update("jax_enable_x64", True) first.')
        check_name(self.plan, "plan", PLANS)
        parts = [getattr(self.optimiser, name, None) for name in ("init", "update")]
        if self.optimiser is not None and not (all(map(callable, parts)) and isinstance(self.optimiser, Hashable)):
            raise InputError(f"optimizer must be one of optax, such as optax.sgd(0.1), not {shown(self.optimiser)}.")
        if isinstance(self.augment, str):
            object.__setattr__(self, "augment", augmentation_of(self.augment))
        elif self.augment is not None and not (callable(self.augment) and isinstance(self.augment, Hashable)):
            raise InputError(f"augment must be a function, or the name of one, not {shown(self.augment)}.")

    def check(self, method: Method, row_shape: tuple[int, ...]) -> None:
        """Refuses a method or rows that cannot train under these settings."""
        assert not isinstance(self.augment, str)
        check_augmentation(self.augment, row_shape)
        check_plan(self.plan, method)
        if method.is_sequential and self.augment_unlabeled and self.augment is not None:
            raise InputError(
                f"{method.name!r} compares a member with what earlier ones said about the unlabelled rows as they are, "
                "so these cannot be augmented; leave augment_unlabeled out."
            )

    def program(self, model: Model, least_rows: int, n_unlabeled: int) -> Program:
        """The static side of a training with these settings, on so many rows or more."""
        assert not isinstance(self.augment, str)
        return Program(
            model=model,
            batch_size=self.batch_size,
            unlabeled_batch_size=self.unlabeled_batch_size or self.batch_size,
            least_rows=power_of_two_below(least_rows),
            least_unlabeled_rows=power_of_two_below(max(n_unlabeled, 1)),
            augment=self.augment,
            augment_unlabeled=self.augment if self.augment_unlabeled else None,
            optimiser=self.optimiser,
            dtype=self.dtype,
            deterministic=self.deterministic,
        )


def power_of_two_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)

"""From plain arrays to what the engine trains on: padded data on the device, and lanes with their keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
import optax
from jax import Array

from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.plans import check_plan
from nu_ensembles.engine.program import Lanes, Program, TrainingData, stack_method
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.inputs import check_positive, check_whole
from nu_ensembles.methods import Method
from nu_ensembles.models import Model

# Folded into the seed for the random labels; members fold in their own number, which never gets this high.
LABELS = np.uint32(0xFFFFFFFF)
DTYPES = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How lanes train, whatever the method.

    Attributes:
      batch_size: labelled rows a member sees in a step.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate, weight_decay: of AdamW, constant.
      augment: applied to labelled images; augment_unlabeled: to unlabelled ones too.
      optimiser: an optax optimiser instead of AdamW, with its own rate and decay.
      dtype: "float32", or "float64" under jax's x64 mode.
      plan: "auto", "vectorised", "sequential" or "sharded".
      deterministic: the same bits on every run on a GPU, too, where training is slower for it.
    """

    batch_size: int = 32
    unlabeled_batch_size: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    augment: Augmentation | None = None
    augment_unlabeled: bool = False
    optimiser: optax.GradientTransformation | None = None
    dtype: str = "float32"
    plan: str = "auto"
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "unlabeled_batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_whole(getattr(self, name), name))
        check_positive(self.learning_rate, "learning_rate")
        check_positive(self.weight_decay, "weight_decay", zero_allowed=True)
        if self.dtype not in DTYPES:
            raise unknown_name("dtype of training", self.dtype, DTYPES)
        if self.dtype == "float64" and not jax.config.read("jax_enable_x64"):
            raise InputError('dtype="float64" needs jax.config.update("jax_enable_x64", True) first.')
        check_plan(self.plan)

    def check_augmentation(self, method: Method) -> None:
        """Refuses a method whose predictions on the unlabelled rows are kept, where these rows are augmented anew."""
        if method.shape == "sequential" and self.augment_unlabeled and self.augment is not None:
            raise InputError(
                f"{method.name!r} compares a member with what earlier ones said about the unlabelled rows as they are, "
                "so these cannot be augmented; leave augment_unlabeled out."
            )

    def program(self, model: Model, least_rows: int, n_unlabeled: int) -> Program:
        """The static side of a training with these settings."""
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


def on_device(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, x_unlabeled: np.ndarray | None, targets: Array | None
) -> TrainingData:
    """The data on the device, padded so that sets of similar size share one program."""
    data = TrainingData(_padded(x), _padded(y), _padded(weight))
    if x_unlabeled is None:
        return data
    n_unlabeled = len(x_unlabeled)
    if targets is not None:
        missing = padded_size(n_unlabeled) - n_unlabeled
        targets = jax.device_put(np.pad(np.asarray(targets), ((0, 0), (0, missing))))
    return data._replace(
        x_unlabeled=_padded(x_unlabeled), n_unlabeled=jax.device_put(np.int32(n_unlabeled)), targets=targets
    )


def member_lanes(seed_key: Array, members: Sequence[int], n_rows: int, method: Method, settings: Settings) -> Lanes:
    """One lane per member, all on the same rows. A member's key depends on the seed and its number alone.

    Raises:
      InputError: the method cannot train under these settings.
    """
    settings.check_augmentation(method)
    number = np.asarray(members, np.int32)
    n_lanes = len(number)
    row_table = np.arange(padded_size(n_rows), dtype=np.int32)
    # Filled by NumPy: each little operation of JAX is a program to compile, in every process anew.
    return Lanes(
        key=_member_keys(seed_key, number),
        member=jax.device_put(number),
        rows=jax.device_put(np.tile(row_table, (n_lanes, 1))),
        n_rows=jax.device_put(np.full(n_lanes, n_rows, np.int32)),
        method=stack_method(method, n_lanes),
        learning_rate=jax.device_put(np.full(n_lanes, settings.learning_rate, settings.dtype)),
        weight_decay=jax.device_put(np.full(n_lanes, settings.weight_decay, settings.dtype)),
    )


_folded_in = jax.jit(jax.random.fold_in)


@jax.jit
def _member_keys(seed_key: Array, members: Array) -> Array:
    return jax.vmap(lambda member: jax.random.fold_in(seed_key, member))(members)


def label_key(seed_key: Array) -> Array:
    """The key of the random labels of a seed."""
    return _folded_in(seed_key, LABELS)


def _padded(rows: np.ndarray) -> Array:
    missing = padded_size(len(rows)) - len(rows)
    return jax.device_put(np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows)

"""What `test_reference.py` trains: small networks, methods of every shape, on tables and images, in both precisions."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from nu_ensembles import models
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.reference import train_by_the_book
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import Trained
from nu_ensembles.methods import AgreeToDisagree, Dice, Method, Nu, Pac2, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key

N_STEPS = 10
BARS = {"float32": 1e-5, "float64": 1e-8}
RNG = np.random.default_rng(0)


def drawn_rows(*shape: int, n: int, n_unlabeled: int, pixels: bool) -> TrainingRows:
    def drawn(n: int) -> np.ndarray:
        if pixels:
            return RNG.integers(0, 256, (n, *shape), np.uint8)
        return RNG.normal(size=(n, *shape)).astype(np.float32)

    weight = RNG.uniform(0.5, 1.5, n).astype(np.float32)
    return TrainingRows(drawn(n), (np.arange(n) % 3).astype(np.int32), weight, drawn(n_unlabeled))


TABLE = drawn_rows(4, n=40, n_unlabeled=50, pixels=False)
IMAGES = drawn_rows(5, 6, 3, n=11, n_unlabeled=14, pixels=True)


class Remembering(nn.Module):
    """A hidden layer that is centred by means of earlier batches, which are its state, and dropout."""

    dtype: str

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        h = nn.Dense(8, param_dtype=self.dtype)(x)
        mean = self.variable("batch_stats", "mean", jnp.zeros, (8,), self.dtype)
        centred = h - mean.value
        if train:
            mean.value = 0.5 * mean.value + 0.5 * h.mean(axis=0)
        h = nn.Dropout(0.2, deterministic=not train)(nn.tanh(centred))
        return nn.Dense(3, param_dtype=self.dtype)(h)


NETWORKS: dict[str, Callable[[str], Model]] = {
    "perceptron": lambda dtype: models.mlp(3, hidden=(8,), dtype=dtype),
    "remembering": lambda dtype: models.from_linen(Remembering(dtype)),
    "lenet": lambda dtype: models.lenet(3, dtype=dtype),
    "wide resnet": lambda dtype: models.wide_resnet(3, depth=10, widen=1, dtype=dtype),
}
CONVOLUTIONS = ("lenet", "wide resnet")
METHODS: dict[str, Method] = {
    "nu": Nu(0.1),
    "pac2": Pac2(),
    "dice": Dice(warm_up=4, hidden=4),
    "agree to disagree": AgreeToDisagree(0.1),
}
SGD = optax.sgd(0.05, momentum=0.9)


@dataclasses.dataclass(frozen=True)
class Training:
    """What is trained: a network and a method by name."""

    network: str
    method: str
    dtype: str
    n_members: int = 3
    optimiser: optax.GradientTransformation | None = None

    def assembled(self, model: Model | None = None) -> Assembly:
        """Ready to train; `model`: instead of the network, to share no compiled program with others."""
        images = self.network in CONVOLUTIONS
        method = METHODS[self.method]
        settings = Settings(
            batch_size=3 if images else 8,
            unlabeled_batch_size=2 if images else None,
            learning_rate=1e-3 if images else 1e-2,
            weight_decay=0.1,
            augment=FlipAndCrop(2) if images else None,
            augment_unlabeled=images and not method.is_sequential,
            optimiser=self.optimiser,
            dtype=self.dtype,
        )
        members = MemberSet(random_key(0), range(self.n_members), method)
        return assemble(model or self.model, settings, IMAGES if images else TABLE, 3, [members])

    @property
    def model(self) -> Model:
        return NETWORKS[self.network](self.dtype)

    @property
    def unshared(self) -> Model:
        """The network as one of a user's own, which equals no other."""
        given = self.model
        return Model(
            lambda *arguments: given.init(*arguments),
            lambda *arguments, **options: given.apply(*arguments, **options),
            apply_with_features=given.apply_with_features,
        )

    def assert_by_the_book(self, trained: Trained | tuple[Any, Any, Any]) -> None:
        params, state, losses = by_the_book(self)
        if isinstance(trained, Trained):
            trained = trained.params, trained.model_state, trained.losses
        for leaf in jax.tree.leaves(trained[0]):
            assert leaf.dtype == self.dtype
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=0, atol=BARS[self.dtype]),
            trained,
            (params, state, losses.mean(axis=1)),
        )


@functools.cache
def by_the_book(training: Training) -> tuple[Any, Any, np.ndarray]:
    return jax.tree.map(np.asarray, train_by_the_book(training.assembled(), N_STEPS))


def trainings(
    networks: Iterable[str],
    *methods: str,
    slow: Sequence[str] = (),
    optimiser: optax.GradientTransformation | None = None,
) -> pytest.MarkDecorator:
    """A test of these, in the dtype that tells most in the least time and, among the slow tests, in the other one."""
    cases = []
    for network, method, dtype in itertools.product(networks, methods or ("nu",), BARS):
        # A wide ResNet in float32 has forms for CPUs that it has not in float64.
        usual = "float32" if network == "wide resnet" else "float64"
        marks = [pytest.mark.slow] if dtype != usual or network in slow or method in slow else []
        training = Training(network, method, dtype, 2 if network in CONVOLUTIONS else 3, optimiser)
        cases.append(pytest.param(training, marks=marks, id=f"{network}-{method}-{dtype}"))
    return pytest.mark.parametrize("training", cases)

"""Joint and sequential methods go through the same engine as independent ones; toys stand for them here."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.methods import Batch, Forward, Standard, method
from nu_ensembles.methods.losses import cross_entropy

SEEN: list[tuple[np.ndarray, np.ndarray, int]] = []


@method()
class StandardTogether(Standard):
    """The standard ensemble as one loss over all members."""

    name: ClassVar[str] = "standard, together"
    shape: ClassVar[Any] = "joint"

    def loss(self, forward: Forward, batch: Batch) -> Array:
        (logits,) = forward(batch.x)
        return jnp.sum(cross_entropy(logits, batch.y, batch.weight))


@method("pull")
class Flock(Standard):
    """Joint, with a real interaction: every member is pulled towards the mean logits of all."""

    pull: float = 1.0
    name: ClassVar[str] = "flock"
    shape: ClassVar[Any] = "joint"

    def loss(self, forward: Forward, batch: Batch) -> Array:
        labelled, unlabelled = forward(batch.x, batch.x)
        return jnp.sum(cross_entropy(labelled, batch.y, batch.weight)) + self.pull * jnp.var(unlabelled, axis=0).sum()


@method()
class Imitator(Standard):
    """Sequential: the first member fits the labels, every later one only the mean of the earlier ones on U."""

    name: ClassVar[str] = "imitator"
    shape: ClassVar[Any] = "sequential"
    uses_unlabeled: ClassVar[bool] = True

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.x_unlabeled is not None
        assert batch.previous is not None
        assert batch.n_previous is not None
        jax.debug.callback(
            lambda *seen: SEEN.append((np.asarray(seen[0]), np.asarray(seen[1]), int(seen[2]))),
            batch.x_unlabeled,
            batch.previous,
            batch.n_previous,
        )
        labelled, unlabelled = forward(batch.x, batch.x_unlabeled)
        # The members that are still to come are zeros, so a sum is a sum over the earlier ones.
        target = batch.previous.sum(axis=0) / jnp.maximum(batch.n_previous, 1)
        imitation = -jnp.mean(jnp.sum(target * jax.nn.log_softmax(unlabelled), axis=-1))
        return jnp.where(batch.n_previous == 0, cross_entropy(labelled, batch.y, batch.weight), imitation)


def test_the_standard_ensemble_written_as_a_joint_method_is_the_standard_ensemble(
    assembled, largest_difference
) -> None:
    alone = assembled(Standard()).train(20)
    together = assembled(StandardTogether(), plan="auto").train(20)
    assert together.plan.name == "vectorised"
    assert largest_difference(alone.params, together.params) < 1e-5


def test_members_of_a_joint_method_act_on_each_other(assembled) -> None:
    x = assembled(Standard()).data.x[:40]

    def spread(pull: float) -> float:
        ready = assembled(Flock(pull), plan="auto")
        params = jax.tree.map(jnp.asarray, ready.train(40).params)
        outputs = jax.vmap(lambda p: ready.program.model.apply(p, x, key=None, train=False))(params)
        return float(jnp.var(outputs, axis=0).mean())

    assert spread(3.0) < 0.5 * spread(0.0)


def test_a_sequential_member_sees_the_earlier_members_probabilities_on_its_unlabelled_rows(assembled) -> None:
    SEEN.clear()
    ready = assembled(Imitator(), plan="auto")
    compiled = compiled_loop((), False)._cache_size()
    trained = ready.train(6)
    jax.effects_barrier()
    assert trained.plan.name == "sequential"
    assert compiled_loop((), False)._cache_size() == compiled + 1

    u = np.asarray(ready.data.x_unlabeled)[:50]
    params = jax.tree.map(jnp.asarray, trained.params)
    ((_, expected),) = predict_lanes(ready.program.model, "float32", params, {}, u)
    row_of = {row.tobytes(): number for number, row in enumerate(u)}
    assert sorted({n for _, _, n in SEEN}) == [0, 1, 2]
    assert len(SEEN) == 3 * 6
    for rows, previous, n_previous in SEEN:
        numbers = [row_of[row.tobytes()] for row in rows]
        np.testing.assert_allclose(previous[:n_previous], expected[:n_previous, numbers], atol=1e-6)
        assert (previous[n_previous:] == 0).all()


def test_later_members_learn_from_earlier_ones(assembled) -> None:
    ready = assembled(Imitator(), plan="auto", learning_rate=0.03)
    trained = ready.train(300)
    u = np.asarray(ready.data.x_unlabeled)[:50]
    ((_, probabilities),) = predict_lanes(
        ready.program.model, "float32", jax.tree.map(jnp.asarray, trained.params), {}, u
    )
    gaps = np.abs(probabilities - probabilities[0]).mean(axis=(1, 2))
    assert gaps[0] == 0
    assert gaps[1:].max() < 0.05

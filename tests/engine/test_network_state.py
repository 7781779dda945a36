"""Networks with mutable state (batch statistics) and dropout go through steps, predictions and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles import models
from nu_ensembles.engine.blocks import block_of
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.models import Model

MOMENTUM = 0.9


class Normalised(nn.Module):
    """One hidden layer with batch normalisation and dropout."""

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        # A bias before the normalisation would have no gradient but rounding, which Adam blows up.
        h = nn.Dense(8, use_bias=False)(x)
        h = nn.BatchNorm(use_running_average=not train, momentum=MOMENTUM)(h)
        h = nn.Dropout(0.2, deterministic=not train)(nn.relu(h))
        return nn.Dense(3)(h)


@pytest.fixture(scope="module")
def ready(assembled):
    return assembled(Nu(0.1), model=models.from_linen(Normalised()))


@pytest.fixture(scope="module")
def trained(ready):
    return ready.train(12)


def test_batch_statistics_move_with_the_data_and_differ_between_members(ready, trained) -> None:
    mean, variance = (trained.model_state["batch_stats"]["BatchNorm_0"][name] for name in ("mean", "var"))
    assert mean.shape == variance.shape == (3, 8)
    assert (np.abs(mean) > 1e-3).all()
    assert (variance != 1).all()
    assert len({tuple(row) for row in mean.tolist()}) == 3


def test_the_first_step_updates_the_statistics_by_the_batch_of_labelled_and_unlabelled_rows(ready) -> None:
    run = Run(ready.program, ready.lanes, ready.data)
    before = jax.tree.map(np.asarray, run.state.params)["params"]["Dense_0"]
    block = block_of(ready.program, ready.lanes, ready.data, 0)
    labelled, unlabelled = (np.asarray(rows)[:, 0] for rows in (block.rows, block.unlabeled_rows))
    run.advance(1)
    found = np.asarray(run.state.model_state["batch_stats"]["BatchNorm_0"]["mean"])
    for member in range(3):
        rows = np.concatenate([ready.data.x[labelled[member]], ready.data.x_unlabeled[unlabelled[member]]])
        hidden = rows @ before["kernel"][member]
        np.testing.assert_allclose(found[member], (1 - MOMENTUM) * hidden.mean(axis=0), atol=1e-5)


def test_prediction_uses_the_statistics_and_drops_nothing(ready, trained) -> None:
    x = np.asarray(ready.data.x[:40])
    params, state = jax.tree.map(jnp.asarray, (trained.params, trained.model_state))
    ((_, all_rows),) = predict_lanes(ready.program.model, "float32", params, state, x)
    ((_, few_rows),) = predict_lanes(ready.program.model, "float32", params, state, x[:3])
    np.testing.assert_allclose(all_rows[:, :3], few_rows, atol=1e-6)


def test_the_statistics_survive_a_broken_run(ready, trained, tmp_path: Path) -> None:
    class PowerCutError(Exception):
        pass

    def cut(step: int, _: np.ndarray) -> None:
        if step == 9:
            raise PowerCutError

    x = np.asarray(ready.data.x[:2])
    with pytest.raises(PowerCutError):
        ready.train(12, evaluate=Evaluate(x, [5, 9], cut), checkpoints=CheckpointFolder(tmp_path, every_seconds=0))
    resumed = ready.train(12, evaluate=Evaluate(x, [5, 9]), checkpoints=CheckpointFolder(tmp_path, resume=True))
    for one, other in ((resumed.params, trained.params), (resumed.model_state, trained.model_state)):
        jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture(scope="module")
def recorded(assembled):
    """Four steps of three members: the keys of network and augmentation, and the batches as the latter saw them."""
    seen: dict[str, list[Any]] = {"network": [], "augmentation": [], "batches": []}

    def record(use: str, key: Array) -> None:
        jax.debug.callback(lambda words: seen[use].append(tuple(words.tolist())), jax.random.key_data(key))

    def init(key: Array, x: Array) -> Array:
        return jnp.zeros((x.shape[1], 3))

    def apply(weights: Array, x: Array, *, key: Array | None, train: bool) -> Array:
        if train and key is not None:
            record("network", key)
        return x @ weights

    def augment(key: Array, x: Array) -> Array:
        record("augmentation", key)
        jax.debug.callback(lambda rows: seen["batches"].append(np.asarray(rows).tobytes()), x)
        return x

    ready = assembled(Standard(), model=Model(init, apply), augment=augment)
    ready.train(4)
    jax.effects_barrier()
    return ready, seen


def test_every_member_draws_anew_in_every_step_for_network_and_augmentation_apart(recorded) -> None:
    _, seen = recorded
    assert len(seen["network"]) == len(seen["augmentation"]) == 3 * 4
    assert len(set(seen["network"] + seen["augmentation"])) == 2 * 3 * 4


def test_every_step_takes_the_rows_of_its_number(recorded) -> None:
    ready, seen = recorded
    rows = block_of(ready.program, ready.lanes, ready.data, 0).rows
    x = np.asarray(ready.data.x)
    expected = [x[np.asarray(rows[member, step])].tobytes() for member in range(3) for step in range(4)]
    assert sorted(seen["batches"]) == sorted(expected)

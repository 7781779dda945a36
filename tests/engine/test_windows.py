"""Unlabelled rows that stay outside: the same rows, labels and bits as on the device, some steps at a time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trainings import IMAGES, TABLE

from nu_ensembles import models
from nu_ensembles.engine import blocks, windows
from nu_ensembles.engine.assembly import MemberSet, assemble
from nu_ensembles.engine.batches import row_order
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.fast import stretches
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import Trained, train
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Method, Nu, Standard, TrainingRows
from nu_ensembles.methods.labels import random_labels, random_labels_at
from nu_ensembles.problem import random_key
from nu_ensembles.rows import LazyRows

N_STEPS = 12


class Elsewhere(LazyRows):
    """An array that pretends to be elsewhere, and notes how many rows were taken at once; it may be torn away."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype, self.fingerprint = array, array.shape, array.dtype, "f" * 64
        self.taken: list[int] = []
        self.lasts = 10**9

    def take(self, indices: Any, axis: int = 0) -> np.ndarray:
        self.taken.append(len(indices))
        if len(self.taken) > self.lasts:
            raise FileNotFoundError(2, "No such file or directory")
        return self.array.take(indices, axis)


def trained(rows: TrainingRows, method: Method, model: str, **how: Any) -> Trained:
    network = models.build(model, 3, **({"hidden": (8,)} if model == "mlp" else {}))
    settings = Settings(batch_size=8, unlabeled_batch_size=5, learning_rate=0.01)
    assembly = assemble(network, settings, rows, 3, [MemberSet(random_key(1), range(4), method)])
    return train(assembly, N_STEPS, **how)


def same_bits(one: Trained, other: Trained) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one.params, other.params)))


@pytest.mark.parametrize("window", [1 << 26, 4 * 5 * 4 * 4 * 2], ids=["one window", "windows of two steps"])
@pytest.mark.parametrize("method", [Nu(0.1), Nu(0.1, labels="shared"), Nu(0.1, labels="uniform")], ids=str)
def test_rows_outside_give_the_bits_of_rows_on_the_device(
    method: Method, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "HAUL_BYTES", window)
    outside = Elsewhere(TABLE.x_unlabeled)
    assert same_bits(trained(TABLE._replace(x_unlabeled=outside), method, "mlp"), trained(TABLE, method, "mlp"))
    assert max(outside.taken) * 16 <= window


@pytest.mark.parametrize("plan", ["auto"])
def test_convolutions_that_step_from_python_read_windows_too(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "HAUL_BYTES", 1 << 12)
    images = IMAGES._replace(
        x=IMAGES.x.repeat(4, 1).repeat(4, 2), x_unlabeled=IMAGES.x_unlabeled.repeat(4, 1).repeat(4, 2)
    )
    lazily = images._replace(x_unlabeled=Elsewhere(images.x_unlabeled))
    assert same_bits(trained(lazily, Nu(0.1), "lenet", plan=plan), trained(images, Nu(0.1), "lenet", plan=plan))


def test_a_method_without_unlabelled_rows_takes_none() -> None:
    outside = Elsewhere(TABLE.x_unlabeled)
    trained(TABLE._replace(x_unlabeled=outside), Standard(), "mlp")
    assert not outside.taken


def test_a_file_that_disappears_is_one_sentence_and_the_checkpoint_goes_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(windows, "HAUL_BYTES", 4 * 5 * 4 * 4 * 2)
    outside = Elsewhere(TABLE.x_unlabeled)
    outside.lasts = 4
    rows = TABLE._replace(x_unlabeled=outside)
    with pytest.raises(InputError, match=r"cannot be read any more .*put their files back"):
        trained(rows, Nu(0.1), "mlp", checkpoints=CheckpointFolder(tmp_path, 0))
    outside.lasts, before = 10**9, len(outside.taken)
    resumed = trained(rows, Nu(0.1), "mlp", checkpoints=CheckpointFolder(tmp_path, 0, resume=True))
    assert same_bits(resumed, trained(TABLE, Nu(0.1), "mlp"))
    assert len(outside.taken) - before < N_STEPS // 2 + 1


@pytest.mark.parametrize(("n_classes", "n_members"), [(2, 5), (3, 3), (10, 4)])
def test_labels_of_a_few_points_are_those_of_all(n_classes: int, n_members: int) -> None:
    key, points = random_key(5), np.array([0, 7, 499, 3, 7])
    whole = np.asarray(random_labels(key, 500, n_classes, n_members))
    assert np.array_equal(random_labels_at(key, 500, n_classes, n_members)(points), whole[:, points])


def test_labels_beyond_32_bits_of_places_are_a_permutation() -> None:
    points = np.array([0, 1 << 31, (1 << 33) - 1])
    assert (np.sort(random_labels_at(random_key(5), 1 << 33, 4, 4)(points), axis=0) == np.arange(4)[:, None]).all()


@pytest.mark.parametrize(("first", "n"), [(0, 10), (990, 10), (300, 200), (0, 1000)])
def test_a_stretch_of_an_order_is_what_sorting_all_rows_gives(first: int, n: int, monkeypatch) -> None:
    monkeypatch.setattr(stretches, "DRAWN_AT_ONCE", 1 << 20)
    key, n_rows = random_key(3), 100_000
    order = np.asarray(row_order(key, jnp.int32(n_rows), n_rows))
    first, n = first * 100, n * 100
    assert np.array_equal(
        stretches.rows_in_order(np.asarray(jax.random.key_data(key)), n_rows, first, n), order[first : first + n]
    )


def test_rows_of_large_sets_are_those_of_whole_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three passes over 70,000 rows in blocks of 256 steps of 200 rows, some of which end in the next pass.
    rng = np.random.default_rng(0)
    rows = TABLE._replace(x_unlabeled=rng.normal(size=(70_000, 4)).astype(np.float32))
    settings = Settings(batch_size=8, unlabeled_batch_size=200)
    assembly = assemble(models.build("mlp", 3), settings, rows, 3, [MemberSet(random_key(1), range(2), Nu(0.1))])

    def drawn() -> list[Any]:
        lasting = blocks.LastingOrders()
        numbers = (0, 1, 2, 4)
        return [np.asarray(blocks.block_of(*_of(assembly), number, lasting).unlabeled_rows) for number in numbers]

    whole = drawn()
    monkeypatch.setattr(blocks, "MANY_ROWS", 1 << 16)
    monkeypatch.setattr(stretches, "STRETCH", 60_000)
    assert all(np.array_equal(one, other) for one, other in zip(drawn(), whole, strict=True))


def _of(assembly: Any) -> tuple[Any, Any, Any]:
    return assembly.program, assembly.lanes, assembly.data

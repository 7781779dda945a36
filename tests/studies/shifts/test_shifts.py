"""Shifts: labels from one distribution, unlabelled and test rows from another, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.tables import RawTable
from nu_ensembles_studies import shifts
from nu_ensembles_studies.shifts.drawing import TwoPlaces
from nu_ensembles_studies.shifts.images import corrupt_small, digit_images, small_mnist
from nu_ensembles_studies.shifts.natural import NaturalShift, split_naturally
from nu_ensembles_studies.shifts.splits import SPLITS, split_table
from nu_ensembles_studies.shifts.tables import WholeTable


def numbers(x, y) -> WholeTable:
    return WholeTable(np.asarray(x, np.float32), np.asarray(y), RawTable.of_numbers(np.asarray(x)))


def test_the_same_name_and_seed_give_the_same_rows_and_another_seed_gives_others() -> None:
    one, again, other = (shifts.load("wine.cluster", seed, 30) for seed in (3, 3, 4))
    assert np.array_equal(one.x, again.x)
    assert np.array_equal(one.x_test, again.x_test)
    assert not np.array_equal(one.x, other.x)


def test_no_row_stands_in_two_parts() -> None:
    x = np.arange(200.0)[:, None]
    drawn = TwoPlaces(x, np.arange(200) % 2, x[:, 0] >= 100).draw(np.random.default_rng(0), 20)
    parts = drawn.x, drawn.x_source_test, drawn.x_unlabeled, drawn.x_test
    assert [len(part) for part in parts] == [20, 80, 50, 50]
    assert sorted(np.concatenate(parts)[:, 0]) == list(range(200))
    assert drawn.x.max() < 100 <= drawn.x_unlabeled.min()


def test_every_class_has_two_labels_and_classes_that_the_source_lacks_are_left_out() -> None:
    y = np.repeat(["a", "b", "rare", "new"], [60, 60, 3, 60])
    deployed = np.arange(183) % 2 == 1
    deployed[123:] = True  # "new" is nowhere else, "rare" not often enough in the source
    drawn = TwoPlaces(np.zeros((183, 1)), y, deployed).draw(np.random.default_rng(0), 4)
    assert drawn.classes == ("a", "b")
    assert np.bincount(drawn.y).tolist() == [2, 2]
    assert len(drawn.y_unlabeled) + len(drawn.y_test) == 60


def test_a_place_with_too_few_rows_is_refused() -> None:
    with pytest.raises(InputError, match="deployment 3,"):
        TwoPlaces(np.zeros((40, 1)), np.arange(40) % 2, np.arange(40) < 3).draw(np.random.default_rng(0), 10)


def test_a_component_splits_at_its_median() -> None:
    spread = np.linspace(-1, 1, 80)
    x = np.stack([3 * spread, 3 * spread + 0.001 * np.sin(np.arange(80))], axis=1)
    drawn = split_table(numbers(x, np.arange(80) % 2), "component-1", 0, 10)
    assert max(drawn.x[:, 0].max(), drawn.x_source_test[:, 0].max()) < min(
        drawn.x_test[:, 0].min(), drawn.x_unlabeled[:, 0].min()
    )


def test_priors_differ_by_a_factor_of_eight_and_nothing_else_does() -> None:
    y = np.arange(6000) % 3
    drawn = split_table(numbers(y[:, None] + 0.5, y), "priors", 1, 100)
    counts = np.sort(np.bincount(np.concatenate([drawn.y_unlabeled, drawn.y_test])))
    assert counts[2] / counts[0] == pytest.approx(8, rel=0.25)
    assert np.array_equal(drawn.x_test[:, 0], drawn.y_test + 0.5)
    source = np.bincount(np.concatenate([drawn.y, drawn.y_source_test]))
    assert source.max() / source.min() < 1.2


def test_a_column_of_numbers_splits_at_its_median() -> None:
    x = np.stack([np.arange(100.0), np.zeros(100)], axis=1)
    drawn = split_table(numbers(x, np.arange(100) % 2), "column", 0, 10)
    assert drawn.x[:, 0].max() <= 49.5 < drawn.x_test[:, 0].min()


def test_a_neighbourhood_is_the_third_of_the_rows_nearest_to_one_of_them() -> None:
    x = np.stack([np.arange(90.0), np.zeros(90)], axis=1)
    drawn = split_table(numbers(x, np.arange(90) % 2), "neighbourhood", 0, 10)
    there = np.sort(np.concatenate([drawn.x_unlabeled, drawn.x_test])[:, 0])
    assert len(there) == pytest.approx(30, abs=1)
    assert np.array_equal(there, np.arange(there[0], there[0] + len(there)))


def test_a_direction_splits_at_its_median() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    one, other = (split_table(numbers(x, np.arange(200) % 2), "direction", seed, 10) for seed in (0, 1))
    for drawn in (one, other):
        rows = [np.concatenate(each) for each in ((drawn.x, drawn.x_source_test), (drawn.x_unlabeled, drawn.x_test))]
        assert [len(part) for part in rows] == [100, 100]
        towards = rows[1].mean(axis=0) - rows[0].mean(axis=0)
        assert np.linalg.norm(towards) > 0.5
    assert not np.array_equal(np.sort(one.x[:, 0]), np.sort(other.x[:, 0]))


def test_no_network_sees_the_column_of_a_natural_shift() -> None:
    x = np.stack([np.repeat([2008.0, 2009.0], 40), np.arange(80.0)], axis=1)
    table = WholeTable(x.astype(np.float32), np.arange(80) % 2, RawTable.of_numbers(x, ["year", "size"]))
    drawn = split_naturally(table, NaturalShift("fish", "year", ("2009",), "Fish: 2009"), 0, 10)
    assert drawn.x.shape == (10, 1)
    assert drawn.x.max() < 40 <= drawn.x_test.min()


def test_small_images_keep_their_size_and_are_changed_more_by_a_higher_severity() -> None:
    images, _ = digit_images()
    assert images.max() == 255
    images = images[:50]
    for name in ("contrast", "motion_blur"):
        weak, strong = (corrupt_small(images, name, severity, 0) for severity in (1, 5))
        assert weak.shape == images.shape
        changes = [np.abs(each.astype(float) - images).mean() for each in (weak, strong)]
        assert 0 < changes[0] < changes[1]


def test_mnist_is_cropped_to_its_ink_and_averaged_to_eight_by_eight(tmp_path) -> None:
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, 4:20, 8:24] = 200
    image[0, 4:12, 8:16] = 100
    np.savez(tmp_path / "mnist-5k.npz", images=image, labels=np.array([7]))
    small, labels = small_mnist(tmp_path)
    assert small.shape == (1, 8, 8, 1)
    assert labels.tolist() == [7]
    assert set(small[0, :4, :4].ravel()) == {100}
    assert set(small[0, 4:].ravel()) == {200}


def test_what_a_rule_is_developed_on_does_not_confirm_it() -> None:
    roles = {name: shifts.role_of(name) for name in shifts.names()}
    assert roles["vehicle.component-2"] == roles["digits.glass_blur-3"] == shifts.DEVELOPMENT
    confirming = ("vehicle.cluster", "income.AGE", "digits.glass_blur-4", "digits.fog-3", "digits.to-mnist")
    assert {roles[name] for name in (*confirming, "cifar10.gaussian_noise-3")} == {shifts.CONFIRMING}


def test_shifts_of_tables_that_are_not_at_hand_say_where_they_are_looked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("NU_ENSEMBLES_DATA", raising=False)
    assert shifts.available("wine.column")
    assert not shifts.available("vehicle.column")
    assert not shifts.available("vehicle.column", tmp_path)
    with pytest.raises(InputError, match=r"vehicle is read in .*NU_ENSEMBLES_DATA names"):
        shifts.load("vehicle.column")
    with pytest.raises(InputError, match=r"vehicle\.npz"):
        shifts.load("vehicle.column", data_dir=tmp_path)


def test_an_unknown_shift_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"digits\.fog-3"):
        shifts.load("digits.fogg-3")
    assert set(SPLITS) <= {name.split(".", 1)[1] for name in shifts.names()}

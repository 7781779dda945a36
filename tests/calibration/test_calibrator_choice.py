"""calibration="auto": a calibrator is taken only where folds that it has not seen clearly gain by it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from nu_ensembles.calibration import Identity, Temperature, VectorScaling, choose_calibrator
from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, labelled_rows
from nu_ensembles.calibration.selection import out_of_fold_losses
from nu_ensembles.errors import InputError


def predictions(seed: int, n_rows: int, sharpness: float) -> tuple[NDArray, NDArray, NDArray]:
    """Probabilities `[N, 3]` that are too sure by a factor, labels, and five folds."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(3), n_rows)
    labels = (rng.random(n_rows)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    sharp = truth**sharpness
    return sharp / sharp.sum(axis=1, keepdims=True), labels, np.arange(n_rows) % 5


def test_overconfident_predictions_are_calibrated_and_the_gain_is_told() -> None:
    choice = choose_calibrator(*predictions(0, 200, sharpness=3.0))
    assert choice.name != "none"
    assert choice.gain.is_clear
    assert choice.gain.relative < -0.2
    assert choice.sentence().startswith(f"Calibrated by {choice.name}: NLL ")
    probs, _, _ = predictions(1, 50, sharpness=3.0)
    assert choice.fitted.apply(probs).max(axis=1).mean() < probs.max(axis=1).mean()


def test_of_forty_sets_that_need_nothing_almost_all_are_left_alone() -> None:
    chosen = [choose_calibrator(*predictions(seed, 60, sharpness=1.0)).name for seed in range(40)]
    assert chosen.count("none") >= 38


def test_the_table_has_a_row_for_everything_that_was_tried() -> None:
    choice = choose_calibrator(*predictions(0, 100, sharpness=3.0), candidates=(Temperature(), VectorScaling()))
    table = choice.as_table()
    assert table["calibrator"].tolist() == ["none", "temperature", "vector_scaling"]
    assert table["gain"][0] == 0.0
    assert (table["gain"][1:] < 0).all()
    assert table["chosen"].sum() == 1
    assert table["calibrator"][table["chosen"]] == [choice.name]
    np.testing.assert_allclose(table["nll"][1:] / table["nll"][0] - 1, table["gain"][1:])


@dataclasses.dataclass(frozen=True)
class Spy(Calibrator):
    """Keeps the labels that it was fitted on."""

    seen: list[list[int]]

    name: ClassVar[str] = "spy"

    def _fitted(self, rows: LabelledRows) -> FittedCalibrator:
        self.seen.append(rows.labels.tolist())
        return Identity()._fitted(rows)


def test_no_label_scores_a_calibrator_that_has_seen_it() -> None:
    spy = Spy([])
    rows = labelled_rows(np.full((4, 4), 0.25), [0, 1, 2, 3])
    losses = out_of_fold_losses(spy, rows, np.array([7, 7, 2, 9]))
    assert spy.seen == [[0, 1, 3], [2, 3], [0, 1, 2]]
    np.testing.assert_allclose(losses, np.log(4))


def test_a_validation_set_which_is_one_fold_is_parted_in_two() -> None:
    spy = Spy([])
    choose_calibrator(np.full((4, 4), 0.25), [0, 1, 2, 3], np.zeros(4, int), candidates=(spy,))
    assert spy.seen == [[1, 3], [0, 2]]


def test_rows_of_weight_zero_have_no_part_in_the_choice() -> None:
    probs, labels, folds = predictions(2, 120, sharpness=3.0)
    weight = (np.arange(120) < 80).astype(float)
    some = choose_calibrator(probs[:80], labels[:80], folds[:80])
    every = choose_calibrator(probs, labels, folds, weight)
    np.testing.assert_allclose(every.losses, some.losses)
    assert every.name == some.name


@pytest.mark.parametrize("n_rows", [1, 2, 9])
def test_of_fewer_than_ten_rows_nothing_is_learnt(n_rows: int) -> None:
    sure_and_wrong = np.eye(3)[np.arange(n_rows) % 3]
    choice = choose_calibrator(sure_and_wrong, (np.arange(n_rows) + 1) % 3, np.arange(n_rows))
    assert choice.name == "none"
    np.testing.assert_array_equal(choice.fitted.apply(np.eye(3)), np.eye(3))
    assert choice.sentence().startswith("No calibrator has a clear gain")


def test_certain_and_right_predictions_are_left_alone() -> None:
    labels = np.arange(30) % 3
    assert choose_calibrator(np.eye(3)[labels], labels, np.arange(30) % 5).name == "none"


def test_calibrators_of_members_are_tried_where_there_are_members() -> None:
    probs, labels, folds = predictions(3, 50, sharpness=2.0)
    assert "member_temperature" not in choose_calibrator(probs, labels, folds).names
    assert "member_temperature" in choose_calibrator(np.stack([probs, probs[::-1]]), labels, folds).names


def test_misuse_is_explained() -> None:
    probs, labels, folds = predictions(4, 10, sharpness=1.0)
    with pytest.raises(InputError, match="fold_of must hold the number of each row's fold, 10 integers"):
        choose_calibrator(probs, labels, folds[:5])
    with pytest.raises(InputError, match="same name"):
        choose_calibrator(probs, labels, folds, candidates=(Temperature(), Temperature(1.0)))

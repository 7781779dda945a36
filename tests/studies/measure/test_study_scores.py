"""What a cell keeps of its predictions, and cells whose members meet."""

import dataclasses

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.jobs import job_of
from nu_ensembles_studies.measure.parts import Parts, load_parts
from nu_ensembles_studies.measure.scores import fit_on_unlabeled, of_members, reliability
from nu_ensembles_studies.measure.train_cells import train_by_itself

DIGITS = StudyCell("digits", 100, "mlp", "nu", 0, (1,), n_unlabeled=800, n_validation=200, n_test=397, split="random")


def test_members_that_fit_their_labels_have_the_variance_of_proposition_1():
    # Three members, four classes, every point's true label given to member 0, 1, 2 or none in turn.
    labels = np.zeros(8, int)
    targets = np.stack([(np.arange(8) + member) % 4 for member in range(3)])
    found = fit_on_unlabeled(np.eye(4)[targets], labels, targets)
    assert found["accuracy_on_random_labels"] == 1.0
    assert found["variance"] == pytest.approx(2 / (2 * 4 * 3))
    assert found["expected_variance"] == pytest.approx(2 / (2 * 4 * 3))


def test_a_member_that_learnt_nothing_shows_in_its_own_numbers():
    labels = np.arange(6) % 3
    members = np.stack([np.eye(3)[labels], np.full((6, 3), 1 / 3)])
    assert of_members(members, labels) == {"accuracy": [1.0, 0.33333], "confidence": [1.0, 0.33333]}


def test_bins_of_confidence_are_closed_on_the_right_and_empty_ones_hold_nothing():
    probs = np.array([[0.6, 0.4], [0.4, 0.6], [1.0, 0.0]])
    bins = reliability(probs, np.array([0, 0, 0]))
    assert bins["share"][8] == pytest.approx(2 / 3, abs=1e-5)  # 0.6 = 9/15 belongs to the ninth bin
    assert bins["accuracy"][8] == 0.5
    assert bins["confidence"][14] == 1.0
    assert bins["confidence"][0] is None


def test_predictions_are_cut_back_into_the_sets_that_were_joined():
    x = np.arange(12.0)[:, None]
    y = np.zeros(12, int)
    parts = Parts(x[:1], y[:1], x[1:4], y[1:4], x[4:6], y[4:6], x[6:], y[6:], 2)
    test, validation, unlabeled = parts.cut(parts.measured_rows[None])
    np.testing.assert_array_equal(test[0], parts.x_test)
    np.testing.assert_array_equal(validation[0], parts.x_validation)
    np.testing.assert_array_equal(unlabeled[0], parts.x_unlabeled)


def test_more_labelled_or_unlabelled_digits_leave_the_test_rows_as_they_are():
    few = load_parts(DIGITS)
    more = load_parts(dataclasses.replace(DIGITS, n_train=400, n_unlabeled=400))
    np.testing.assert_array_equal(few.x_test, more.x_test)
    np.testing.assert_array_equal(few.x_validation, more.x_validation)
    assert (len(more.x), len(more.x_unlabeled), len(more.x_test)) == (400, 400, 397)
    assert load_parts(dataclasses.replace(DIGITS, model="lenet")).x.shape == (100, 8, 8, 1)


def test_what_cannot_be_loaded_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(InputError, match="Unknown data set 'cifar'"):
        load_parts(dataclasses.replace(DIGITS, dataset="cifar"))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz"):
        load_parts(dataclasses.replace(DIGITS, dataset="mnist"), tmp_path)
    with pytest.raises(InputError, match="no published rows"):
        load_parts(dataclasses.replace(DIGITS, split="published"))


@pytest.mark.parametrize("method", ["pac2", pytest.param("single", marks=pytest.mark.slow)])
def test_joint_methods_and_procedures_arrive_at_every_epoch_as_nu_fit_does(blobs, method):
    x, y, u = blobs
    parts = Parts(x, y, u, np.zeros(len(u), int), x, y, x, y, 3)
    model = nu.models.mlp(3, hidden=(4,))
    cell = StudyCell("blobs", 40, "mlp", method, 5, (2, 6), n_members=2)
    found = list(train_by_itself(cell, job_of(cell, model, parts), x, lambda steps: None))
    assert [arrival.epochs for arrival in found] == [2, 6]
    expected = nu.fit(model, x, y, u, method, 2, epochs=6, seed=5).predict_members(x)
    np.testing.assert_allclose(found[1].members, expected, atol=1e-5)
    np.testing.assert_allclose(found[1].predict(x[:2]), expected[:, :2], atol=1e-5)

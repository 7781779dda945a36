"""Mutual information, variance and disagreement of members."""

import math

import numpy as np
import pytest

from nu_ensembles import metrics


def voters(*predictions, n_classes=None):
    """One-hot members from their predicted classes."""
    n_classes = 1 + max(max(p) for p in predictions) if n_classes is None else n_classes
    return np.eye(n_classes)[np.array(predictions)]


def test_identical_members_share_all_their_entropy():
    assert metrics.mutual_information(voters([0, 1, 2, 3], [0, 1, 2, 3])) == pytest.approx(2.0)


def test_independent_members_share_nothing():
    assert metrics.mutual_information(voters([0, 0, 1, 1], [0, 1, 0, 1])) == pytest.approx(0.0, abs=1e-12)


def test_relabelled_members_share_everything():
    assert metrics.mutual_information(voters([0, 0, 1, 1], [1, 1, 0, 0])) == pytest.approx(1.0)


def test_mutual_information_of_a_table_with_a_skipped_class():
    # cells (0,0) twice, (2,2) once, (2,0) once; class 1 is never predicted
    half = -0.5 * math.log2(0.5)
    joint = half + 2 * (-0.25 * math.log2(0.25))
    first, second = 2 * half, -0.75 * math.log2(0.75) - 0.25 * math.log2(0.25)
    members = voters([0, 0, 2, 2], [0, 0, 2, 0], n_classes=3)
    assert metrics.mutual_information(members) == pytest.approx(first + second - joint)


def test_the_matrix_holds_every_pair_and_entropies_on_its_diagonal():
    members = voters([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1])
    matrix = metrics.pairwise_mutual_information(members)
    np.testing.assert_allclose(matrix, [[1, 0, 1], [0, 1, 0], [1, 0, 1]], atol=1e-12)


def test_one_member_has_no_pairs():
    single = voters([0, 1, 1])
    assert math.isnan(metrics.mutual_information(single))
    assert math.isnan(metrics.disagreement(single))
    assert metrics.variance(single, [0, 1, 0]) == 0.0


def test_the_correction_takes_most_of_the_bias_off():
    rng = np.random.default_rng(0)
    members = voters(*rng.integers(0, 100, (2, 10_000)), n_classes=100)
    assert metrics.mutual_information(members) == pytest.approx(0.81, abs=0.03)
    assert metrics.mutual_information(members, bias_corrected=True) == pytest.approx(0.07, abs=0.05)


def test_variance_of_two_members():
    members = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    assert metrics.variance(members, [0]) == pytest.approx(0.5 * 0.2**2)


def test_variance_of_opposed_members_is_an_eighth():
    assert metrics.variance(voters([0], [1]), [0]) == pytest.approx(1 / 8)


def test_disagreement_is_the_share_of_differing_pairs():
    members = voters([0, 1, 2], [0, 1, 1], [0, 2, 0])
    assert metrics.disagreement(members) == pytest.approx((0 / 3 + 2 / 3 + 3 / 3) / 3)

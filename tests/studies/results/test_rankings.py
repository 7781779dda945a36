"""Methods on the same splits: ranks, ratios with intervals over data sets, wins and losses."""

import math

import numpy as np
import pytest

from nu_ensembles_studies.pages.rivals import harmed
from nu_ensembles_studies.results.rankings import mean_ranks, ratio, wins_and_losses


def test_ranks_are_means_over_splits_that_have_every_method_and_ties_share_them():
    losses = np.array([[0.1, 0.2, 0.3], [0.5, 0.5, 0.4], [0.1, np.nan, 0.2]])
    np.testing.assert_allclose(mean_ranks(losses), [(1 + 2.5) / 2, (2 + 2.5) / 2, (3 + 1) / 2])
    assert np.isnan(mean_ranks(losses[2:])).all()


def test_a_ratio_weighs_every_data_set_the_same_however_many_splits_it_has():
    groups = np.array(["a", "a", "a", "b"])
    found = ratio(np.array([2.0, 2.0, 2.0, 0.5]), np.ones(4), groups)
    assert found.mean == pytest.approx(1.0)
    assert (found.low < 1 < found.high, found.excludes_one) == (True, False)


def test_an_interval_over_data_sets_excludes_one_where_all_of_them_agree():
    groups = np.repeat(["a", "b", "c", "d"], 2)
    found = ratio(np.array([0.90, 0.92, 0.91, 0.93, 0.90, 0.91, 0.92, 0.92]), np.ones(8), groups)
    assert found.excludes_one
    assert found.text() == "0.914 (0.902 to 0.926)"


def test_one_data_set_has_no_interval_and_none_has_no_ratio():
    assert ratio(np.array([0.5, 0.5]), np.ones(2), np.array(["a", "a"])).text() == "0.500"
    nothing = ratio(np.array([np.nan]), np.ones(1), np.array(["a"]))
    assert math.isnan(nothing.mean)
    assert nothing.text() == "–"


def test_wins_losses_and_harm_count_splits():
    losses, reference = np.array([0.9, 1.005, 1.2, np.nan, 1.0]), np.ones(5)
    assert wins_and_losses(losses, reference) == (1, 2)
    assert harmed(losses, reference) == (1, 4)

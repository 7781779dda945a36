"""Entropies from counts."""

import numpy as np
import pytest

from nu_ensembles.metrics.information import entropy_table, joint_predictions, pair_information


def test_plug_in_table_is_n_log_n():
    np.testing.assert_allclose(entropy_table(3, bias_corrected=False), [0, 0, 2 * np.log(2), 3 * np.log(3)])


def test_grassberger_numbers_follow_their_recursion():
    # G(1) = -gamma - ln 2, G(2) = G(1) + 2, G(2n+1) = G(2n), G(2n+2) = G(2n) + 2/(2n+1)
    table = entropy_table(6, bias_corrected=True)
    g = table[1:] / np.arange(1, 7)
    assert g[0] == pytest.approx(-np.euler_gamma - np.log(2))
    np.testing.assert_allclose(
        g[1:], [g[0] + 2, g[0] + 2, g[0] + 2 + 2 / 3, g[0] + 2 + 2 / 3, g[0] + 2 + 2 / 3 + 2 / 5]
    )


def test_weights_stand_for_repeated_samples():
    rng = np.random.default_rng(0)
    predictions = rng.integers(0, 4, (3, 50), dtype=np.int32)
    counts = np.bincount(rng.integers(0, 50, 50), minlength=50)
    weighted = pair_information(predictions, 4, counts[:, None].astype(float), joint_predictions(predictions, 4))
    repeated = np.repeat(predictions, counts, axis=1)
    plain = pair_information(repeated, 4, np.ones((50, 1)), joint_predictions(repeated, 4))
    np.testing.assert_allclose(weighted, plain, atol=1e-12)

"""Rows in batches: nothing lost, nothing added, few shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import metrics, models
from nu_ensembles.engine import predict
from nu_ensembles.engine.predict import positive_softmax, predict_lanes, row_batches


@pytest.mark.parametrize("n_rows", [1, 2, 7, 8, 9, 21])
def test_batches_cover_the_rows_once_and_repeat_only_the_last_one(n_rows: int) -> None:
    x = np.arange(2 * n_rows).reshape(n_rows, 2)
    slices, parts = zip(*row_batches(x, rows_at_once=8), strict=True)
    assert (
        np.concatenate([part[: s.stop - s.start] for s, part in zip(slices, parts, strict=True)]).tolist() == x.tolist()
    )
    assert all(len(part) in (1, 2, 4, 8) for part in parts)
    assert all((part[s.stop - s.start :] == x[s.stop - 1]).all() for s, part in zip(slices, parts, strict=True))


def test_a_batch_size_that_is_no_power_of_two_is_never_exceeded() -> None:
    assert [len(part) for _, part in row_batches(np.zeros((13, 1)), rows_at_once=6)] == [6, 6, 1]
    assert [len(part) for _, part in row_batches(np.zeros((5, 1)), rows_at_once=6)] == [6]


def test_wide_rows_go_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "VALUES_AT_ONCE", 100)
    assert [len(part) for _, part in row_batches(np.zeros((5, 5, 10)))] == [2, 2, 1]
    assert [len(part) for _, part in row_batches(np.zeros((2, 500)))] == [1, 1]


def test_no_probability_of_a_finite_logit_is_zero() -> None:
    logits = jnp.array([[0.0, -200.0, 5.0], [1000.0, 0.0, -1000.0]])
    probs = positive_softmax(logits)
    assert probs.dtype == jnp.float32
    assert (probs > 0).all()
    np.testing.assert_allclose(probs, jax.nn.softmax(logits), rtol=1e-6, atol=1e-30)
    assert np.isfinite(metrics.nll(np.asarray(probs), [1, 2]))


def test_lanes_on_cores_predict_what_they_predict_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "VALUES_A_CORE", 4 * 6)
    model = models.build("mlp", 3, hidden=(5,))
    x = np.random.default_rng(0).standard_normal((11, 6), np.float32)
    params = jax.vmap(lambda key: model.init(key, x))(jax.random.split(jax.random.key(0), 3))
    apart = list(predict_lanes(model, "float32", params, {}, x, lanes_at_once=1))
    together = list(predict_lanes(model, "float32", params, {}, x))
    assert [rows.stop - rows.start for rows, _ in apart] == [4, 4, 3]
    assert len(together) == 1
    np.testing.assert_allclose(np.concatenate([part for _, part in apart], axis=1), together[0][1], rtol=1e-6)

"""Class shares among the unlabelled rows: when they are believed, and what they come to."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nu_ensembles.calibration import FittedOtherPriors, Temperature, restore
from nu_ensembles.deployment import Priors, estimate_priors, priors
from nu_ensembles.deployment.priors import most_likely_shares, same_classes_predicted
from nu_ensembles.errors import InputError


def rows(n_of_each: tuple[int, int], seed: int, apart: float = 2.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of two clouds, their classes, and the probabilities of one who learnt from as many of each."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n_of_each)
    x = rng.normal(size=(len(y), 2)) + apart * y[:, None]
    of_one = 1 / (1 + np.exp(-(apart * (x - apart / 2)).sum(axis=1)))
    return x, y, np.stack([1 - of_one, of_one], axis=1)


def test_other_shares_are_found_with_an_interval() -> None:
    x, y, out_of_fold = rows((50, 50), 0)
    u, there, on_u = rows((500, 100), 1)
    found = estimate_priors(["a", "b"], out_of_fold, y, on_u, x, u)
    assert found is not None
    assert found.labelled["b"] == pytest.approx(0.5)
    # Pulled towards the labels' share as by 100 rows.
    assert found.low["b"] - 0.04 < there.mean() < found.high["b"]
    assert found.estimated["b"] < 0.3
    assert found.p_value < 1e-6
    assert "most of all b" in found.sentence()
    assert Priors(**json.loads(json.dumps(found.to_dict()))) == found


def test_the_same_shares_are_left_alone() -> None:
    x, y, out_of_fold = rows((50, 50), 0)
    u, _, on_u = rows((300, 300), 1)
    assert estimate_priors(["a", "b"], out_of_fold, y, on_u, x, u) is None


def test_where_more_than_shares_differs_none_are_believed() -> None:
    x, y, out_of_fold = rows((50, 50), 0)
    u, _, on_u = rows((500, 100), 1)
    assert estimate_priors(["a", "b"], out_of_fold, y, on_u, x, u + np.array([3.0, -3.0])) is None


def test_shares_that_the_labels_leave_open_are_not_moved_whatever_the_test_says() -> None:
    # Nine classes and labels that say next to nothing: the ensemble happens to predict class 5 more often.
    rng = np.random.default_rng(1)
    y, x, u = np.arange(72) % 9, rng.normal(size=(72, 4)), rng.normal(size=(800, 4))
    out_of_fold = rng.dirichlet(np.full(9, 2.0), size=72)
    on_u = rng.dirichlet(2.0 + 1.0 * (np.arange(9) == 5), size=800)
    assert same_classes_predicted(out_of_fold, on_u) < 0.005
    assert estimate_priors([*"abcdefghi"], out_of_fold, y, on_u, x, u) is None


def test_shares_that_differ_by_little_are_left_alone_however_many_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out_of_fold = rows((200, 200), 0)
    u, _, on_u = rows((3000, 2000), 1)
    assert same_classes_predicted(out_of_fold, on_u) < 0.005
    assert estimate_priors(["a", "b"], out_of_fold, y, on_u, x, u) is None
    monkeypatch.setattr(priors, "LEAST_FACTOR", 1.0)
    assert estimate_priors(["a", "b"], out_of_fold, y, on_u, x, u) is not None


def test_with_few_labels_a_class_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out_of_fold = rows((50, 50), 0)
    u, _, on_u = rows((500, 100), 1)
    of_many = [np.pad(p, ((0, 0), (0, 19)), constant_values=1e-9) for p in (out_of_fold, on_u)]  # 21 classes
    names = [str(number) for number in range(21)]
    assert estimate_priors(names, of_many[0], y, of_many[1], x, u) is None
    monkeypatch.setattr(priors, "FEWEST_LABELS_A_CLASS", 4)
    assert estimate_priors(names, of_many[0], y, of_many[1], x, u) is not None


def test_predicted_classes_are_counted() -> None:
    mostly, half = np.tile([[0.9, 0.1]], (90, 1)), np.array([[0.9, 0.1], [0.1, 0.9]] * 45)
    assert same_classes_predicted(half, half) == 1
    assert same_classes_predicted(half, mostly) < 1e-6
    assert same_classes_predicted(mostly, mostly) == 1


def test_certain_rows_have_the_shares_of_their_classes() -> None:
    certain = np.eye(2)[np.repeat([0, 1], [900, 9000])]
    assert most_likely_shares(certain, np.array([0.5, 0.5]))[1] == pytest.approx((9000 + 50) / 10_000)


def test_probabilities_are_moved_after_they_were_calibrated_and_come_back_from_json() -> None:
    moved = FittedOtherPriors(2, np.array([1.0, 3.0]))
    np.testing.assert_allclose(moved.apply(np.array([[0.5, 0.5]])), [[0.25, 0.75]])
    first = Temperature().fit(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), [0, 1, 1])
    both = FittedOtherPriors(2, np.array([1.0, 3.0]), first)
    again = restore(json.loads(json.dumps({**both.state(), "ratio": both.ratio.tolist()})))
    p = np.array([[0.7, 0.3]])
    np.testing.assert_allclose(again.apply(p), moved.apply(first.apply(p)))


@pytest.mark.parametrize("change", [{"ratio": [1.0]}, {"ratio": [1.0, -1.0]}, {"ratio": "x"}, {"before": {}}])
def test_a_damaged_state_is_refused(change: dict[str, object]) -> None:
    state = {**FittedOtherPriors(2, np.array([1.0, 3.0])).state(), **change}
    with pytest.raises(InputError):
        restore(state)

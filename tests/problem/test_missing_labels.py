"""Labels with gaps: which rows have none, and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.problem.labels import labelled_rows, separate

NAN = np.nan


@pytest.mark.parametrize(
    ("y", "labelled"),
    [
        (np.array([0.0, NAN, 1.0]), [True, False, True]),
        (np.array([0, None, 1], object), [True, False, True]),
        (np.array(["a", None, NAN, " ", ""], object), [True, False, False, False, False]),
        (np.array(["a", "", "none"]), [True, False, True]),
        (np.array([1, 0]), [True, True]),
        (np.array([True, False]), [True, True]),
        (np.array([np.inf, 1.0]), [True, True]),
    ],
)
def test_nan_none_and_blanks_are_no_labels(y: np.ndarray, labelled: list[bool]) -> None:
    assert labelled_rows(y).tolist() == labelled


@pytest.mark.parametrize(
    ("y", "labels", "kind"),
    [
        ([0.0, NAN, 1.0], [0, 1], "f"),
        ([3, None, 1], [3, 1], "i"),
        ([True, None, False], [True, False], "b"),
        (["a", None, "b"], ["a", "b"], "O"),
    ],
)
def test_labels_have_the_type_that_they_have_without_the_gaps(y: Any, labels: list[Any], kind: str) -> None:
    with pytest.warns(DataWarning, match=r"1 of 3 rows without a label in y \(NaN, None or blank\) are taken as"):
        found, labelled = separate(np.array(y, None if kind == "f" else object))
    assert (found.tolist(), found.dtype.kind) == (labels, kind)
    assert labelled is not None
    assert labelled.tolist() == [True, False, True]


def test_without_gaps_nothing_is_said() -> None:
    y, labelled = separate(["a", "b"])
    assert (y.tolist(), labelled) == (["a", "b"], None)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([NAN, NAN], "y holds no label at all .NaN, None and blanks stand for none.; label some rows"),
        (["", ""], "y holds no label at all"),
        ([NAN, np.inf], r"y contains infinity in 1 row\(s\); give a class, or NaN for no label"),
    ],
)
@pytest.mark.filterwarnings("ignore::nu_ensembles.errors.DataWarning")
def test_no_label_at_all_and_infinity_are_refused(y: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        separate(y)


def test_the_missing_values_of_pandas_are_no_labels() -> None:
    pd = pytest.importorskip("pandas")
    y = np.asarray(pd.Series([1, None, 2], dtype="Int64"), object)
    assert labelled_rows(y).tolist() == [True, False, True]

"""A fitted classifier writes a page on rows of any kind; what is strange in them is found."""

from __future__ import annotations

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.ensemble import strangers
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.estimator.reporting import search_grid
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.column import encoded

QUICK = {"n_members": 2, "model_options": {"hidden": (8,)}, "random_state": 0}


def table(n_rows: int, seed: int) -> tuple[RawTable, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    words = np.where(rng.random(n_rows) < 0.3 + 0.4 * y, "Oslo", "Rome").tolist()
    return RawTable((RawColumn("age", "number", rng.normal(size=n_rows) + y), encoded("city", words))), y


@pytest.fixture(scope="module")
def fitted():
    x, y = table(40, 0)
    return nu.EnsembleClassifier("standard", max_iter=5, **QUICK).fit(x, np.array(["no", "yes"])[y])


def test_a_page_with_and_without_labels(fitted, tmp_path):
    x, y = table(60, 1)
    path = fitted.report(x, np.array(["no", "yes"])[y], path=tmp_path / "page.html", name="my rows")
    assert path == tmp_path / "page.html"
    text = path.read_text(encoding="utf-8")
    for part in ("my rows: how right, how sure", "Class by class", "Sets in the place", fitted.verdict_, "city"):
        assert part in text
    fitted.report(x, path=path)
    assert "have no labels" in path.read_text(encoding="utf-8")
    some = [None] * 30 + np.array(["no", "yes"])[y][30:].tolist()
    fitted.report(x, some, path=path)
    assert "On 30 labelled rows" in path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="which is not among the classes"):
        fitted.report(x, ["perhaps"] * 60, path=path)
    with pytest.raises(InputError, match="one label per row"):
        fitted.report(x, ["no"] * 3, path=path)


def test_a_loaded_classifier_writes_the_same_page(fitted, tmp_path):
    x, y = table(60, 1)
    labels = np.array(["no", "yes"])[y]
    fitted.save(tmp_path / "model")
    pages = [
        each.report(x, labels, path=tmp_path / f"{number}.html").read_text(encoding="utf-8")
        for number, each in enumerate((fitted, nu.EnsembleClassifier.load(tmp_path / "model")))
    ]
    assert pages[0] == pages[1]


def test_numbers_far_away_and_unknown_words_are_strange(fitted):
    x, _ = table(5, 2)
    age, city = x.parts
    values = age.values.copy()
    values[3] = 99.0
    words = [*(word for word in city.words()[:4]), "Paris"]
    rows = RawTable((RawColumn("age", "number", values), encoded("city", words)))
    with pytest.warns(DataWarning, match="taken as unknown: 'city'"):
        found = strangers(fitted.ensemble_, rows)
    assert found is not None
    assert found.n == 2
    assert list(found.why) == [3, 4]
    assert found.why[3].startswith("age is 99, ")
    assert found.why[4] == "city is 'Paris', which the training rows had not, or once"


def test_images_and_rows_that_are_not_scaled_have_nothing_to_compare_with(blobs):
    x, y, _ = blobs
    classifier = nu.EnsembleClassifier("standard", max_iter=2, standardize=False, **QUICK).fit(x, y)
    assert strangers(classifier.ensemble_, x) is None
    scaled = nu.EnsembleClassifier("standard", max_iter=2, **QUICK).fit(x, y)
    far = x.copy()
    far[7, 2] = 1000
    found = strangers(scaled.ensemble_, far)
    assert found is not None
    assert found.why[7].startswith("column 3 is 1000, ")


def test_a_search_that_measured_some_candidates_at_some_lengths_has_a_picture():
    found = search_grid(
        {
            "beta": np.array([0.0, 0.0, 0.01]),
            "n_steps": np.array([5, 9, 5]),
            "nll": np.array([1.0, 0.8, 0.9]),
            "chosen": np.array([False, True, False]),
        }
    )
    np.testing.assert_array_equal(found.nll, [[1.0, 0.8], [0.9, np.nan]])
    assert found.chosen == (0, 1)
    assert search_grid(None) is None

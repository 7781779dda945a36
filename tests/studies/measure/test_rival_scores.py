"""The study `rivals`: the same rows for every method, scores that no zero makes infinite, what goes beside ν."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.metrics import evaluate
from nu_ensembles.tuning import accompanying
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import cells_of
from nu_ensembles_studies.experiments.rivals import ALWAYS, RIVALS_STUDY
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.measure.rival_scores import of_nu, rival_scores, scores_of, split_of
from nu_ensembles_studies.measure.rivals import RIVALS
from nu_ensembles_studies.registry import STUDIES
from nu_ensembles_studies.run.study_run import run_study


def cell(method: str = "svm", dataset: str = "iris", n: int = 50, seed: int = 0) -> StudyCell:
    options = StudyOptions((dataset,), methods=(method,), n=(n,), seeds=1, first_seed=seed, backend="cpu")
    (found,) = cells_of(RIVALS_STUDY.declare(RIVALS_STUDY.complete(options)))
    return found


def test_a_split_depends_on_seed_and_size_and_not_on_the_method() -> None:
    one, other, later = split_of(cell("svm")), split_of(cell("nu")), split_of(cell("svm", seed=1))
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.x_test, other.x_test)
    assert (one.x[0] != later.x[0]).any()
    assert (len(one.x), len(one.x_unlabeled), len(one.x_test)) == (50, 50, 50)


def test_at_most_half_of_a_table_is_labelled_and_every_class_has_two_rows() -> None:
    parts = split_of(cell(dataset="wine", n=300))
    assert len(parts.x) == 89
    assert len(split_of(cell(dataset="digits", n=20)).x) == 20
    assert np.bincount(split_of(cell(dataset="digits", n=20)).y).tolist() == [2] * 10


def test_a_probability_of_zero_or_none_at_all_costs_no_more_than_one_in_a_million() -> None:
    nothing = np.zeros((0, 4), np.float32), np.zeros(0, int)
    rows, y = np.zeros((3, 4), np.float32), np.array([0, 1, 0])
    parts = Parts(rows, y, *nothing, *nothing, rows, y, n_classes=2)
    scores = scores_of([[1.0, 0.0], [1.0, 0.0], [np.nan, np.nan]], parts)
    assert scores["nll"] == pytest.approx((0 - np.log(1e-6) - np.log(0.5)) / 3, rel=1e-4)


@pytest.mark.parametrize("method", sorted(set(ALWAYS) - {"nu", "standard"}))
def test_every_rival_scores_on_a_table_with_few_rows_of_a_class(method: str) -> None:
    small = dataclasses.replace(cell(method, "wine", 6), n_unlabeled=40, n_test=60)
    found = rival_scores(small, split_of(small))
    assert 0 < found["test"]["nll"] < np.log(1e6)
    assert found["cost"]["processor_seconds"] > 0
    assert found["package"].startswith(("scikit-learn ", "nu-ensembles "))


def small_nu(**options: Any) -> Any:
    """Of the sizes of the classifiers' own tests, so that all share compiled programs."""
    asked: dict[str, Any] = {"betas": (0.1,), "max_iter": 4, "cv": 3, "random_state": 0, "batch_size": 8}
    asked |= {"model_options": {"hidden": (8,)}, "learning_rate": 0.01}
    return NuEnsembleClassifier(3, **asked, **options)


def test_what_goes_beside_nu_is_what_the_classifier_makes_by_its_arguments(monkeypatch, blobs) -> None:
    monkeypatch.setattr(accompanying, "TREES", 20)
    monkeypatch.setattr(accompanying, "TREES_OF_A_FOLD", 20)
    x, y, u = blobs
    parts = Parts(x, y, u, np.zeros(50, int), x[:0], y[:0], x, y, n_classes=3)
    alone = small_nu().fit(parts.x, parts.y, parts.x_unlabeled)
    found = of_nu(alone, parts)
    whole = small_nu(companion="forest", calibration="auto").fit(parts.x, parts.y, parts.x_unlabeled)
    expected = evaluate(whole.predict_proba(parts.x_test)[None], parts.y_test)
    assert found["companion_calibrated"]["nll"] == pytest.approx(expected["nll"], rel=1e-4)
    assert found["choice"]["beta"] == alone.beta_


def test_a_rival_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dataclasses.replace(RIVALS["lightgbm"], package="no-such-package")
    with pytest.raises(InputError, match=r"LightGBM needs `pip install no-such-package`; or leave it out of --methods"):
        _ = absent.version


def test_pretrained_rivals_need_their_weights_in_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("NU_ENSEMBLES_DATA", str(tmp_path))
    for name in ("tabpfn", "tabicl"):
        with pytest.raises(InputError, match=rf"its weights as weights/{name}….ckpt in the folder that"):
            RIVALS[name].make(None)  # pyright: ignore[reportArgumentType]


def test_the_study_names_its_own_methods_and_refuses_others(tmp_path) -> None:
    with pytest.raises(InputError, match="Unknown method 'forest'"):
        run_study("rivals", StudyOptions(methods=("forest",)), tmp_path / "study")
    assert set(RIVALS) == set(RIVALS_STUDY.methods or ())
    assert STUDIES["rivals"] is RIVALS_STUDY


def test_a_study_of_two_rivals_runs_goes_on_and_has_a_page(tmp_path) -> None:
    options = StudyOptions(("iris",), methods=("svm", "random_forest"), seeds=2)
    results, progress = run_study("rivals", options, tmp_path / "study")
    assert (progress.n_done, progress.n_failed) == (4, 0)
    assert run_study("rivals", options, tmp_path / "study")[1].n_done == 4
    text = (tmp_path / "study" / "report.html").read_text()
    assert "SVM, calibrated" in text
    assert len(results.records) == 4

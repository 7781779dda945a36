"""A finished study: what its records hold, its export, its page, and the commands."""

import json
import math

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.report.page import render_page
from nu_ensembles_studies.declare.published import METRICS
from nu_ensembles_studies.pages.study_page import headline, study_page
from nu_ensembles_studies.results.results import Results
from nu_ensembles_studies.run.reading import read_results
from nu_ensembles_studies.run.study_run import draw


@pytest.fixture(scope="module")
def results(small_study):
    return read_results(small_study)


def test_every_row_has_every_metric_on_every_seed_before_and_after_temperature_scaling(results):
    assert len(results.rows) == 4
    for row in results.rows:
        for metric in METRICS:
            assert results.values(row, metric).shape == (2,)
            assert not any(map(math.isnan, results.values(row, metric)))
        assert (results.values(row, "temperature", "") > 0).all()
        assert (results.values(row, "accuracy", "scaled") == results.values(row, "accuracy")).all()


def test_the_fit_on_the_random_labels_and_the_variance_of_proposition_1_are_there(results):
    row = next(row for row in results.rows if row.method == "nu")
    assert (results.values(row, "accuracy_on_random_labels", "unlabeled") <= 1).all()
    # K = 3 members, c = 10 classes: (K - 1) / (2cK).
    assert results.mean(row, "expected_variance", "unlabeled").mean == pytest.approx(2 / 60)


def test_an_export_gives_the_same_results_and_the_same_page(results, small_study, tmp_path):
    again = read_results(small_study / "results.json")
    assert render_page(study_page(again)) == render_page(study_page(results))
    again.export(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads((small_study / "results.json").read_text())


def test_the_export_says_who_made_it_how_and_how_long_it_took(small_study):
    entry = json.loads((small_study / "results.json").read_text())
    assert entry["commands"] == [
        "nu-ensembles study table1 --datasets digits --models mlp --methods standard,nu --protocols published,matched "
        "--seeds 2 --members 10 --rule published --quick"
    ]
    assert entry["environment"]["versions"]["jax"]
    assert {"nu_ensembles", "jax", "backend", "device", "code"} == set(entry["makers"][0])
    assert entry["seconds"] > 0
    assert entry["training_seconds"] > 0


def test_the_page_shows_claims_scores_and_how_it_was_run(results):
    text = render_page(study_page(results)).replace("\N{NO-BREAK SPACE}", " ")
    for expected in (
        "What the paper says, and what came out",
        "does not hold",
        "Protocol “matched”",
        "After temperature scaling",
        "Were the random labels fitted?",
        "Reliability diagram of ν",
        "--datasets digits",
        "its numbers mean nothing",
    ):
        assert expected in text
    assert "Missing and failed cells" not in text


def test_a_study_that_is_half_done_says_so(results):
    half = Results(results.study, results.options, results.rows, dict(list(results.records.items())[:1]), results.about)
    assert any("3 cells have not been trained" in sentence for sentence in headline(half))
    assert "Not trained: Digits, MLP" in render_page(study_page(half))


def test_a_study_without_any_record_still_has_a_page(results):
    empty = Results(results.study, results.options, results.rows, {}, results.about)
    assert "Missing and failed cells" in render_page(study_page(empty))


def test_a_page_is_drawn_from_an_export_without_the_folder(small_study, tmp_path):
    draw(read_results(small_study / "results.json"), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_no_change_of_an_export_gives_other_numbers_without_a_word(small_study, tmp_path):
    path, rng = tmp_path / "results.json", np.random.default_rng(0)
    raw = (small_study / "results.json").read_bytes()
    whole = read_results(small_study / "results.json")
    n_refused = 0
    for at in rng.integers(0, len(raw), 60):
        path.write_bytes(raw[:at] + bytes(rng.integers(32, 127, 1, np.uint8)) + raw[at + 1 :])
        try:
            found = read_results(path)
        except InputError:
            n_refused += 1
            continue
        assert found.records == whole.records
    assert n_refused > 50


def test_what_is_no_study_is_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"rows": []}')
    with pytest.raises(InputError, match="holds no results of a study"):
        read_results(tmp_path / "results.json")
    with pytest.raises(InputError, match="holds no study"):
        read_results(tmp_path)

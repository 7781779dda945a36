"""The tables of the study `rivals`: everything is compared on the same splits, and aims are met or not."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import cells_of
from nu_ensembles_studies.experiments.rivals import ALWAYS, RIVALS_STUDY
from nu_ensembles_studies.pages.rivals import COMPANION, NU, Splits, leaders_section, targets, ten_and_eleven
from nu_ensembles_studies.results.folder import Record
from nu_ensembles_studies.results.results import Results

MAKER = {"nu_ensembles": "1", "jax": "1", "backend": "cpu", "device": "cpu", "code": "1"}


def results_of(nll: dict[str, list[float]]) -> Results:
    """Three seeds of two tables; a method has a number for each seed, alike on both tables, and none where it ends."""
    options = RIVALS_STUDY.complete(StudyOptions(("iris", "wine"), seeds=3, backend="cpu"))
    rows = RIVALS_STUDY.declare(options)
    records = {}
    for cell in cells_of(rows):
        values = nll.get(cell.method, [0.9, 0.9, 0.9])
        if cell.seed >= len(values):
            continue
        scores = {"nll": values[cell.seed], "ece": 0.05, "accuracy": 0.8, "brier": 0.3}
        measured = {"test": scores, "cost": {"processor_seconds": 1.0}}
        if cell.method == "nu":
            better = scores | {"nll": 0.9 * values[cell.seed]}
            measured |= {"companion": better, "calibrated": scores, "companion_calibrated": better}
            measured |= {"companion_cost": {"processor_seconds": 0.5}}
        records[cell.identity] = Record(cell, "done", MAKER, {"epochs": {"1": measured}})
    return Results(RIVALS_STUDY, options, rows, records, {})


def test_means_and_ranks_are_over_the_splits_that_nu_was_measured_on() -> None:
    splits = Splits.of(results_of({"nu": [0.5, 0.7], "svm": [0.4, 0.8, 99.0]}))
    assert splits.counted.tolist() == [True, True, False] * 2
    assert np.nanmax(splits.scores(("svm", "test"), "nll")) == 0.8
    assert splits.seconds(NU)[0] == 1.0
    assert splits.seconds(COMPANION)[0] == 1.5


def test_ranks_are_among_ten_and_with_a_companion_among_eleven() -> None:
    splits = Splits.of(results_of({"nu": [0.5, 0.7, 0.5], "svm": [0.4, 0.8, 0.6]}))
    ten, eleven = ten_and_eleven(splits)
    assert (len(ten), len(eleven)) == (10, 11)
    assert ten[NU] == pytest.approx((2 + 1 + 1) / 3)
    # 0.45, 0.63 and 0.45 against 0.4, 0.8 and 0.6.
    assert eleven[COMPANION] == pytest.approx((2 + 1 + 1) / 3)
    assert eleven[NU] == pytest.approx((3 + 2 + 2) / 3)


def test_an_aim_is_met_or_missed_by_what_was_measured() -> None:
    met = {each.text[:20]: each.is_met for each in targets(results_of({"nu": [0.5, 0.5, 0.5]}))}
    assert set(met.values()) == {True}
    missed = targets(results_of({"nu": [1.5, 1.5, 1.5]}))
    assert [each.is_met for each in missed][:4] == [False, False, False, False]


def test_without_nu_there_is_a_table_and_no_aim() -> None:
    results = results_of({"nu": []})
    assert targets(results) == []
    section = leaders_section(results)
    assert section is not None
    assert len(ALWAYS) - 1 == len(section.blocks[0].rows)  # pyright: ignore[reportAttributeAccessIssue]

"""Compiled ensembles: the same probabilities from any batch and any thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(1).normal(20.0, 3.0, size=(70, 5)).astype(np.float32)


def test_batches_of_any_size_give_the_ensembles_probabilities(of_numbers: nu.Ensemble, rows: np.ndarray) -> None:
    compiled, expected = of_numbers.compile(), of_numbers.predict_proba(rows)
    for size in (1, 3, 64, 70):
        np.testing.assert_allclose(compiled.predict_proba(rows[:size]), expected[:size], atol=1e-6)
    assert compiled.predict(rows[:5]).tolist() == of_numbers.predict(rows[:5]).tolist()
    assert compiled.predict_proba(rows[:0]).shape == (0, 2)


def test_more_rows_than_go_through_at_once_come_in_parts(of_numbers: nu.Ensemble, rows: np.ndarray) -> None:
    many = np.tile(rows, (20, 1))
    found = of_numbers.compile(("probabilities", "members", "uncertainty")).answer(many)
    assert {name: each.shape for name, each in found.items()} == {
        "probabilities": (1400, 2),
        "members": (1400, 3, 2),
        "uncertainty": (1400,),
    }
    np.testing.assert_allclose(found["members"].swapaxes(0, 1), of_numbers.predict_members(many), atol=1e-6)


def test_tables_and_pixels_are_taken_as_the_ensemble_takes_them(
    of_a_table: nu.Ensemble, of_pixels: nu.Ensemble
) -> None:
    table = mixed_table(20, seed=1)
    np.testing.assert_allclose(of_a_table.compile().predict_proba(table), of_a_table.predict_proba(table), atol=1e-6)
    x = np.random.default_rng(1).integers(0, 256, (2, 8, 8, 3), np.uint8)
    np.testing.assert_allclose(of_pixels.compile().predict_proba(x), of_pixels.predict_proba(x), atol=1e-6)


def test_threads_that_come_at_once_get_their_own_answers(of_numbers: nu.Ensemble, rows: np.ndarray) -> None:
    compiled, expected = of_numbers.compile(), of_numbers.predict_proba(rows)
    found: dict[int, np.ndarray] = {}

    def ask(number: int) -> None:
        found[number] = np.concatenate([compiled.predict_proba(rows[at : at + 1]) for at in range(number, 70, 8)])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        np.testing.assert_allclose(found[number], expected[number::8], atol=1e-6)


def test_bad_rows_are_refused_in_the_words_of_the_ensemble(of_numbers: nu.Ensemble, of_pixels: nu.Ensemble) -> None:
    compiled = of_numbers.compile()
    with pytest.raises(nu.InputError, match="X contains NaN"):
        compiled.predict_proba(np.full((1, 5), np.nan, np.float32))
    with pytest.raises(nu.InputError, match="rows of shape"):
        compiled.predict_proba(np.zeros((1, 4), np.float32))
    with pytest.raises(nu.InputError, match="bytes are taken for pixels"):
        of_pixels.compile().predict_proba(np.zeros((1, 8, 8, 3), np.float32))

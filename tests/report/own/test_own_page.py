"""The page on one's own rows says what is so: with labels, with some, with none, and however few rows there are."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.report.own import Given, Training, own_page
from nu_ensembles.report.own.answers import Answers
from nu_ensembles.report.page import Page, SortableTable, render_page

CLASSES = ("ant", "bee", "cat")


def given(n_rows: int = 200, n_members: int = 4, sure: float = 1.0, seed: int = 0, **changes: Any) -> Given:
    """Calibrated predictions of three classes, made surer (or less sure) than they are right by a factor of logits."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_rows, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=row) for row in p], int).reshape(n_rows)
    members = np.exp(sure * logits + 0.3 * rng.normal(size=(n_members, n_rows, 3)))
    members /= members.sum(axis=2, keepdims=True)
    fields = {"name": "test.csv", "classes": CLASSES, "members": members, "probabilities": members.mean(axis=0)}
    return Given(**{**fields, "labels": labels, **changes})


def tables(page: Page) -> dict[str, SortableTable]:
    blocks = [block for section in page.sections for block in section.blocks]
    return {block.caption.split(":")[0]: block for block in blocks if isinstance(block, SortableTable)}


def words(page: Page) -> str:
    return re.sub(r"<[^>]+>", " ", render_page(page)).replace("\N{NO-BREAK SPACE}", " ")


def test_a_labelled_page_has_everything_in_its_place():
    page = own_page(given())
    titles = [section.title for section in page.sections]
    assert titles == [
        "Are the probabilities right?",
        "Class by class",
        "Rows to look at",
        "If it may stay silent",
        "Sets in the place of one answer",
        "How it was trained",
    ]
    assert page.contents == titles
    assert page.card is not None
    assert [tile.name for tile in page.card.tiles] == ["Accuracy", "Mean confidence", "NLL", "ECE", "Surest 90 %"]
    text = render_page(page)
    assert text.count("<svg") == 2
    assert 'href="#section-6"' in text
    assert 'id="section-6"' in text


def test_what_is_said_of_calibration_follows_the_numbers():
    for sure, said in ((0.3, "it promises too little."), (4.0, "it promises too much.")):
        card = own_page(given(600, sure=sure)).card
        assert card is not None
        assert card.sentences[0].endswith(said)
        assert card.sentences[1].endswith("confidence and accuracy do not quite match.")
    card = own_page(given(600, n_members=1, sure=1.0)).card
    assert card is not None
    assert card.sentences[0].endswith("as far as so many rows can tell.")


def test_calibrated_probabilities_seldom_exceed_the_ece_that_chance_gives():
    above = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.5, 1.0, 300)
        labels = (rng.random(300) >= p).astype(int)
        probabilities = np.stack([p, 1 - p], axis=1)
        answers = Answers(Given("x", ("a", "b"), probabilities[None], probabilities, labels))
        above += answers.scores["ece"] > answers.chance_ece
    assert above <= 6  # 2 are expected


def test_the_tables_count_what_is_there():
    classes = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1]])
    page = own_page(Given("x", ("a", "b"), classes[None], classes, np.array([0, 1, 1, 0])))
    found = tables(page)
    assert [cell.text for cell in found["The classes"].rows[0]][:6] == ["a", "2", "100.0 %", "3", "66.7 %", "76.7 %"]
    matrix = found["What is taken for what"]
    assert [[cell.text for cell in row] for row in matrix.rows] == [["a", "2", "0"], ["b", "1", "1"]]
    assert [cell.shade for cell in matrix.rows[1][1:]] == [0.5, 0.5]
    assert [row[0].text for row in found["The most doubtful rows"].rows] == ["2", "3", "1", "4"]
    assert [row[0].text for row in found["The surest mistakes"].rows] == ["2"]
    assert [row[3].text for row in found["Accuracy of the surest rows"].rows] == ["75.0 %"] * 3 + ["100.0 %"] * 3
    assert "need at least 40 labelled rows; here are 4." in words(page)


def test_many_classes_have_a_list_of_confusions():
    probabilities = np.full((40, 20), 0.01)
    probabilities[np.arange(40), np.arange(40) % 20] = 0.81
    labels = np.arange(40) % 20
    labels[:3] = 7
    page = own_page(Given("x", [f"class {c}" for c in range(20)], probabilities[None], probabilities, labels))
    pairs = tables(page)["The commonest confusions"]
    assert [[cell.text for cell in row][:3] for row in pairs.rows] == [["class 7", f"class {c}", "1"] for c in range(3)]


def test_without_labels_there_is_confidence_disagreement_and_what_is_strange():
    strange = {3: "age is 312, 14 standard deviations from the mean"}
    page = own_page(given(labels=None, strange=strange, n_strange=1))
    assert [section.title for section in page.sections] == [
        "How sure is it?",
        "Rows to look at",
        "Rows unlike the training rows",
        "How it was trained",
    ]
    text = words(page)
    assert "have no labels, so it is not known how many predictions are right" in text
    assert "age is 312, 14 standard deviations from the mean" in text
    assert "accuracy" not in text.lower()
    nothing = own_page(given(labels=None, strange={}))
    assert "None was found among 200 rows" in words(nothing)


def test_rows_without_a_label_count_where_none_is_needed():
    labels = np.concatenate([np.asarray(given().labels)[:50], np.full(150, -1)])
    page = own_page(given(labels=labels))
    assert "150 rows without a label count where no label is needed" in page.lead[0]
    assert page.card is not None
    assert page.card.sentences[0].startswith("On 50 labelled rows")
    assert "no label" in {row[-1].text for row in tables(page)["The most doubtful rows"].rows}


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_page_of_very_few_rows_is_a_page(n_rows, labelled):
    rows = given(n_rows) if labelled else given(n_rows, labels=None)
    text = words(own_page(rows))
    assert f"{n_rows} row" in text
    assert "nan" not in text


def test_a_page_of_rows_that_are_all_right_has_no_mistakes():
    probabilities = np.tile([0.9, 0.05, 0.05], (60, 1))
    page = own_page(given(60, members=probabilities[None], probabilities=probabilities, labels=np.zeros(60, int)))
    assert "The surest mistakes" not in tables(page)
    assert page.card is not None
    assert page.card.tiles[0].note == "94.0 – 100.0 %"


def test_images_names_and_cells_stand_beside_doubtful_rows():
    images = np.random.default_rng(0).random((200, 8, 8, 1))

    def cells(rows):
        return {"age": [str(row) for row in rows]}

    page = own_page(given(images=images, row_names=[f"{n}.png" for n in range(200)], cells=cells))
    row = tables(page)["The most doubtful rows"].rows[0]
    assert row[1].image is not None
    assert row[1].image.startswith(b"\x89PNG")
    assert row[0].text == f"{row[-1].text}.png"
    assert "data:image/png;base64," in render_page(page)


def test_what_was_expected_and_how_it_was_trained_are_told():
    of_ants = {"ant": SimpleNamespace(predicted_rows=12, error=0.25)}
    expected: Any = SimpleNamespace(sentence=lambda: "About 81 % are right.", limit="An estimate.", by_class=of_ants)
    grid = SimpleNamespace(
        betas=np.array([0.0, 0.01]), steps=np.array([5, 9]), nll=np.array([[1.0, 0.9], [0.8, np.nan]]), chosen=(1, 0)
    )
    training = Training("A verdict.", {"β": "0.01"}, {"age": "number"}, grid, "Nothing shows a shift.", expected)
    page = own_page(given(training=training))
    text = words(page)
    for sentence in ("A verdict.", "About 81 % are right.", "An estimate.", "Nothing shows a shift.", "0.01"):
        assert sentence in text
    by_class = tables(page)["By class, of 12 unlabelled rows that were looked at"]
    assert [cell.text for cell in by_class.rows[0]] == ["ant", "12", "25.0 %"]
    assert "Heat map of the out-of-fold NLL" in render_page(page)


def test_a_page_needs_rows():
    with pytest.raises(InputError, match=r"test\.csv has no rows, so there is nothing to report on"):
        given(0)

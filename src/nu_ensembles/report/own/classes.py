"""Class by class: how often each is found, how often its name is used wrongly, and what is taken for what."""

from __future__ import annotations

import numpy as np

from nu_ensembles.metrics.bootstrap import wilson
from nu_ensembles.report.own.answers import LEVEL, Answers
from nu_ensembles.report.own.words import percent, points
from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable

# A matrix of more classes than this is wider than a screen; then the commonest confusions are listed.
MOST_CLASSES = 12
CONFUSIONS = 12


def by_class(answers: Answers) -> Section:
    """A table of the classes and the confusion matrix."""
    n_classes = len(answers.given.classes)
    predicted = answers.probabilities.argmax(axis=1)
    matrix = np.zeros((n_classes, n_classes), int)
    np.add.at(matrix, (answers.labels, predicted), 1)
    blocks = [
        _table(answers, matrix),
        _matrix(answers, matrix) if n_classes <= MOST_CLASSES else _pairs(answers, matrix),
    ]
    text = (
        "Found is the share of a class's rows that are recognised (recall); right is the share of the predictions of a "
        "class that are right (precision). Confidence is the mean one of these predictions: above the share that is "
        "right, this class is promised too often."
    )
    return Section("Class by class", [Paragraph(text), *blocks])


def _table(answers: Answers, matrix: np.ndarray) -> SortableTable:
    columns = [
        Column("Class", text=True),
        Column("Rows"),
        Column("Found"),
        Column("Predicted"),
        Column("Right"),
        Column("Confidence"),
        Column(
            "Difference",
            "mean confidence less the share that is right, percentage points; its 95 % interval is that "
            "of the share (Wilson)",
        ),
    ]
    predicted = answers.probabilities.argmax(axis=1)
    rows = []
    for number, name in enumerate(answers.given.classes):
        n_true, n_predicted, hits = matrix[number].sum(), matrix[:, number].sum(), matrix[number, number]
        found = hits / n_true if n_true else np.nan
        right = hits / n_predicted if n_predicted else np.nan
        confidence = float(answers.confidence[predicted == number].mean()) if n_predicted else np.nan
        gap, mark = Cell("–"), ""
        if n_predicted:
            low, high = wilson(right, int(n_predicted), LEVEL)
            mark = "worse" if not low <= confidence <= high else ""
            ends = f"{points(confidence - high)} to {points(confidence - low)}"
            gap = Cell(f"{points(confidence - right)} ({ends})", confidence - right, mark)
        rows.append(
            [
                Cell(name),
                Cell(f"{n_true:,}", int(n_true)),
                Cell(percent(found), found),
                Cell(f"{n_predicted:,}", int(n_predicted)),
                Cell(percent(right), right),
                Cell(percent(confidence), confidence),
                gap,
            ]
        )
    note = "✗: the interval excludes zero. Of many classes about one in twenty is marked by chance."
    return SortableTable("The classes", columns, rows, note)


def _matrix(answers: Answers, matrix: np.ndarray) -> SortableTable:
    names = answers.given.classes
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    rows = [
        [
            Cell(name),
            *(Cell(f"{matrix[i, j]:,}", int(matrix[i, j]), shade=float(shares[i, j])) for j in range(len(names))),
        ]
        for i, name in enumerate(names)
    ]
    columns = [Column("Is …", text=True), *(Column(name) for name in names)]
    return SortableTable(
        "What is taken for what: a line for each true class, a column for each prediction",
        columns,
        rows,
        "The stronger the colour, the larger the share of the class's rows.",
    )


def _pairs(answers: Answers, matrix: np.ndarray) -> SortableTable:
    names, off = answers.given.classes, matrix.copy()
    np.fill_diagonal(off, 0)
    largest = np.argsort(-off, axis=None, kind="stable")[:CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(largest, off.shape), strict=True):
        if off[i, j]:
            share = off[i, j] / matrix[i].sum()
            rows.append(
                [
                    Cell(names[int(i)]),
                    Cell(names[int(j)]),
                    Cell(f"{off[i, j]:,}", int(off[i, j])),
                    Cell(percent(share), share),
                ]
            )
    columns = [Column("Is …", text=True), Column("taken for", text=True), Column("Rows"), Column("Of its rows")]
    return SortableTable("The commonest confusions", columns, rows, "" if rows else "There is none.")

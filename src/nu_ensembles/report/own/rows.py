"""Which rows to look at: those of the least confidence, confident mistakes, and what is unlike the training rows."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from nu_ensembles import metrics
from nu_ensembles.report.own.given import Given
from nu_ensembles.report.own.pictures import confidences
from nu_ensembles.report.own.words import counted, percent
from nu_ensembles.report.page import (
    Block,
    Card,
    Cell,
    Column,
    Gallery,
    Paragraph,
    Picture,
    Section,
    SortableTable,
    Tile,
)

SHOWN, MISTAKES = 15, 8
# The confidences above which rows are counted where there is no label to count anything else.
SURE = (0.5, 0.8, 0.9, 0.95, 0.99)


def card_without_labels(given: Given) -> Card:
    """What there is to say of rows without labels."""
    mean, n = float(given.confidence.mean()), given.n_rows
    tiles = [
        Tile("Rows", f"{n:,}"),
        Tile("Mean confidence", percent(mean), "what it promises, not what it keeps"),
        Tile("Confidence 90 % or more", percent(float((given.confidence >= 0.9).mean())), "of the rows"),
    ]
    if len(given.members) > 1:
        apart = float(metrics.disagreement(given.members))
        tiles.append(Tile("Two members differ", percent(apart), "on so many rows"))
    if given.strange is not None:
        tiles.append(Tile("Unlike the training rows", f"{given.n_strange:,}", "rows; see below"))
    said = f"These {counted(n, 'row')} have no labels, so it is not known how many predictions are right."
    expected = given.training.expected
    more = [expected.sentence()] if expected is not None else []
    return Card(tiles, [f"{said} Label a few dozen drawn at random, and make the page again.", *more])


def how_sure(given: Given) -> Section:
    """How the confidences are spread, and over which classes."""
    picture = Picture(
        confidences(given.confidence), "How many rows are predicted with which confidence.", "Histogram of confidences."
    )
    share = np.bincount(given.predicted, minlength=len(given.classes)) / given.n_rows
    mass = given.probabilities.mean(axis=0)
    rows = [
        [
            Cell(name),
            Cell(f"{round(share[c] * given.n_rows):,}", share[c]),
            Cell(percent(share[c]), share[c]),
            Cell(percent(float(mass[c])), float(mass[c])),
            Cell(percent(float(given.confidence[given.predicted == c].mean())) if share[c] else "–"),
        ]
        for c, name in enumerate(given.classes)
    ]
    columns = [
        Column("Class", text=True),
        Column("Predicted"),
        Column("Share"),
        Column("Mean probability", "of the class over all rows: how many rows it expects, doubtful ones in part"),
        Column("Confidence", "mean, where the class is predicted"),
    ]
    sure = "; ".join(f"{percent(float((given.confidence >= least).mean()))} from {least:g} on" for least in SURE)
    text = f"Share of rows by their confidence: {sure}."
    table = SortableTable("What is predicted", columns, rows)
    return Section("How sure is it?", [Paragraph(text), Gallery([picture]), table])


def doubtful(given: Given) -> Section:
    """The rows that the ensemble is least sure of, and mistakes that it was sure of."""
    order = np.argsort(given.confidence, kind="stable")[:SHOWN]
    text = "The rows of the least confidence: where a label, or a second look, is worth most."
    blocks: list[Block] = [Paragraph(text), _table(given, order.tolist(), "The most doubtful rows")]
    if given.is_labelled:
        assert given.labels is not None
        wrong = given.labelled[given.predicted[given.labelled] != given.labels[given.labelled]]
        surest = wrong[np.argsort(-given.confidence[wrong], kind="stable")][:MISTAKES]
        if len(surest):
            n_wrong = counted(len(wrong), "mistake")
            blocks += [
                Paragraph(f"The surest of {n_wrong}: wrong labels, strange rows, or something that it has not learnt."),
                _table(given, surest.tolist(), "The surest mistakes"),
            ]
    return Section("Rows to look at", blocks)


def strange(given: Given) -> Section | None:
    """Rows unlike those of the training; None where nobody looked."""
    if given.strange is None:
        return None
    rules = (
        "Looked for are numbers more than six standard deviations from the mean of the training rows, and categories "
        "that these did not have. Rows that are unlike them in other ways are not found so."
    )
    title = "Rows unlike the training rows"
    if not given.strange:
        return Section(title, [Paragraph(f"None was found among {counted(given.n_rows, 'row')}. {rules}")])
    numbers = list(given.strange)[:SHOWN]
    rows = [
        [
            Cell(given.row_name(row), row),
            Cell(given.strange[row]),
            Cell(given.classes[int(given.predicted[row])]),
            Cell(f"{given.confidence[row]:.2f}", float(given.confidence[row])),
        ]
        for row in numbers
    ]
    columns = [
        Column("Row"),
        Column("What is strange", text=True),
        Column("Predicted", text=True),
        Column("Confidence"),
    ]
    text = f"{given.n_strange:,} of {counted(given.n_rows, 'row')}. {rules}"
    return Section(title, [Paragraph(text), SortableTable("The strangest rows", columns, rows)])


def _table(given: Given, rows: Sequence[int], caption: str) -> SortableTable:
    n_members = len(given.members)
    columns = [Column("Row")]
    if given.images is not None:
        columns.append(Column("Image"))
    columns += [Column("Predicted", text=True), Column("Confidence"), Column("Or else", text=True), Column("p")]
    if n_members > 1:
        columns.append(Column("Members", f"how many of the {n_members} predict the same class"))
    if given.is_labelled:
        columns.append(Column("Is", text=True))
    cells = {} if given.cells is None else given.cells(rows)
    columns += [Column(name, text=True) for name in cells]
    lines = []
    for at, row in enumerate(rows):
        second = int(np.argsort(-given.probabilities[row], kind="stable")[1])
        p = float(given.probabilities[row, second])
        line = [Cell(given.row_name(row), row)]
        if given.images is not None:
            line.append(Cell(f"row {given.row_name(row)}", row, image=thumbnail(given.images[row])))
        line += [Cell(given.classes[int(given.predicted[row])]), _share(float(given.confidence[row]))]
        line += [Cell(given.classes[second]), _share(p)]
        if n_members > 1:
            line.append(Cell(f"{given.agreeing[row]} of {n_members}", int(given.agreeing[row])))
        if given.is_labelled:
            line.append(_truth(given, row))
        lines.append([*line, *(Cell(values[at]) for values in cells.values())])
    return SortableTable(caption, columns, lines)


def _share(p: float) -> Cell:
    return Cell(f"{p:.2f}", p)


def _truth(given: Given, row: int) -> Cell:
    assert given.labels is not None
    label = int(given.labels[row])
    if label < 0:
        return Cell("no label")
    return Cell(given.classes[label], mark="" if label == given.predicted[row] else "worse")


def thumbnail(image: np.ndarray) -> bytes:
    """A small PNG of one image `[H, W, C]`; what is no bytes is stretched from its least to its largest number."""
    from PIL import Image

    if image.dtype != np.uint8:
        low, high = float(image.min()), float(image.max())
        image = np.round(255 * (image - low) / max(high - low, 1e-12)).astype(np.uint8)
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image[..., :3])
    picture.thumbnail((96, 96))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()

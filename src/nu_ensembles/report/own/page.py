"""The page of a report on one's own rows: the card, then what it rests on, then how the ensemble came about."""

from __future__ import annotations

from nu_ensembles.report.heatmap import nll_heat_map
from nu_ensembles.report.own import answers as answered
from nu_ensembles.report.own import classes, decisions, rows
from nu_ensembles.report.own.given import Given
from nu_ensembles.report.own.words import counted
from nu_ensembles.report.page import Block, Cell, Column, Gallery, Page, Paragraph, Picture, Section, SortableTable


def own_page(given: Given) -> Page:
    """The page; without labels it has confidence, disagreement and strange rows."""
    n_classes = len(given.classes)
    lead = [
        f"{counted(given.n_rows, 'row')}, {n_classes} classes, predicted by an ensemble of "
        f"{counted(len(given.members), 'member')}."
    ]
    if given.is_labelled:
        answers = answered.Answers(given)
        n_without = given.n_rows - len(given.labelled)
        if n_without:
            lead[0] += f" {counted(n_without, 'row')} without a label count where no label is needed."
        card = answered.card(answers)
        sections = [
            answered.reliability(answers),
            classes.by_class(answers),
            rows.doubtful(given),
            decisions.staying_silent(answers),
            decisions.sets(answers),
        ]
    else:
        card = rows.card_without_labels(given)
        sections = [rows.how_sure(given), rows.doubtful(given)]
    found = [*sections, rows.strange(given), _expected(given), _trained(given)]
    title = f"{given.name}: how right, how sure" if given.is_labelled else f"{given.name}: how sure"
    return Page(title, lead, [each for each in found if each is not None], card=card)


def _expected(given: Given) -> Section | None:
    """What was expected on the unlabelled rows of the training; None where nothing is known."""
    training = given.training
    sentences = [] if training.expected is None else [training.expected.sentence(), training.expected.limit]
    if training.shift:
        sentences.append(training.shift)
    if not sentences:
        return None
    blocks: list[Block] = [Paragraph(sentence) for sentence in sentences]
    by_class = getattr(training.expected, "by_class", None)
    if by_class:
        lines = [
            [
                Cell(str(name)),
                Cell(f"{of.predicted_rows:,}", of.predicted_rows),
                Cell(f"{100 * of.error:.1f} %", of.error),
            ]
            for name, of in by_class.items()
        ]
        columns = [Column("Class", text=True), Column("Predicted rows"), Column("Expected errors")]
        looked_at = sum(of.predicted_rows for of in by_class.values())
        blocks.append(SortableTable(f"By class, of {looked_at:,} unlabelled rows that were looked at", columns, lines))
    return Section("What to expect on the unlabelled rows", blocks)


def _trained(given: Given) -> Section:
    training = given.training
    blocks: list[Block] = [Paragraph(training.verdict)] if training.verdict else []
    if training.search is not None:
        caption = "Out-of-fold NLL over β and steps; dark is low, frames mark the choice and the standard ensemble's."
        picture = Picture(nll_heat_map(training.search), caption, "Heat map of the out-of-fold NLL over β and steps.")
        blocks.append(Gallery([picture], wide=True))
    if training.facts:
        lines = [[Cell(name), Cell(value)] for name, value in training.facts.items()]
        blocks.append(SortableTable("Settings", [Column("What", text=True), Column("Value", text=True)], lines))
    if training.columns:
        lines = [[Cell(name), Cell(words)] for name, words in training.columns.items()]
        columns = [Column("Column", text=True), Column("What the network gets", text=True)]
        blocks.append(SortableTable("The columns, and what became of them", columns, lines))
    return Section("How it was trained", blocks)

"""What to do with the probabilities: answer only where they are high, or give sets in the place of one answer."""

from __future__ import annotations

import numpy as np

from nu_ensembles import metrics
from nu_ensembles.metrics.bootstrap import wilson
from nu_ensembles.report.own.answers import COVERAGE, LEVEL, Answers
from nu_ensembles.report.own.pictures import kept_accuracy
from nu_ensembles.report.own.words import between, counted, percent
from nu_ensembles.report.page import Cell, Column, Gallery, Paragraph, Picture, Section, SortableTable

COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
PROMISES = (0.8, 0.9, 0.95)
# With fewer labelled rows a half of them promises nothing.
FEWEST = 40


def staying_silent(answers: Answers) -> Section:
    """Accuracy where the least sure rows are left to somebody else."""
    right, confidence = answers.right, answers.confidence
    order = np.argsort(-confidence, kind="stable")
    rows = []
    for coverage in COVERAGES:
        kept = order[: max(1, round(coverage * len(order)))]
        accuracy = float(right[kept].mean())
        rows.append(
            [
                Cell(percent(coverage, 0), coverage),
                Cell(f"{len(kept):,}", len(kept)),
                Cell(f"{confidence[kept].min():.3f}", float(confidence[kept].min())),
                Cell(percent(accuracy), accuracy),
                Cell(between(*wilson(accuracy, len(kept), LEVEL))),
            ]
        )
    columns = [
        Column("Answered"),
        Column("Rows"),
        Column(
            "Confidence from", "answer where the confidence is at least this, and leave the others to somebody else"
        ),
        Column("Accuracy"),
        Column("95 % interval"),
    ]
    curve = metrics.risk_coverage(answers.probabilities, answers.labels)
    accuracy = answers.kept[0]
    drawn = kept_accuracy(curve.coverage, curve.risk, COVERAGE, accuracy)
    caption = "Accuracy among the surest rows. Dashed: all rows answered. The dot is where nine in ten are."
    text = (
        f"Answering nine rows in ten, the surest ones, keeps an accuracy of {percent(accuracy)}; answering all gives "
        f"{percent(float(right.mean()))}."
    )
    alt = f"Accuracy against coverage; {percent(accuracy)} at 90 % coverage."
    table = SortableTable("Accuracy of the surest rows", columns, rows)
    return Section("If it may stay silent", [Paragraph(text), Gallery([Picture(drawn, caption, alt)]), table])


def sets(answers: Answers) -> Section:
    """Conformal sets: fitted on one half of the labelled rows, tried on the other."""
    n = len(answers.labels)
    title = "Sets in the place of one answer"
    if n < FEWEST:
        few = (
            f"Sets that hold the true class with a promised probability need at least {FEWEST} labelled rows; here are "
        )
        return Section(title, [Paragraph(f"{few}{n}.")])
    shuffled = np.random.default_rng(0).permutation(n)
    half, other = shuffled[: n // 2], shuffled[n // 2 :]
    rows = []
    for promise in PROMISES:
        fitted = metrics.ConformalSets(promise).fit(answers.probabilities[half], answers.labels[half])
        inside = fitted.transform(answers.probabilities[other])
        held, size = metrics.set_coverage(inside, answers.labels[other])
        n_classes = inside.sum(axis=1)
        least = 1 - fitted.limit_ if np.isfinite(fitted.limit_) else 0.0
        rows.append(
            [
                Cell(percent(promise, 0), promise),
                Cell(f"{least:.3f}", least),
                Cell(percent(held), held),
                Cell(f"{size:.2f}", size),
                Cell(percent(float((n_classes == 1).mean())), float((n_classes == 1).mean())),
                Cell(percent(float((n_classes == 0).mean())), float((n_classes == 0).mean())),
            ]
        )
    columns = [
        Column("Promise", "the share of new rows, like these, whose set holds the true class"),
        Column("Probability from", "a class is in the set where its probability is at least this"),
        Column("Held", "what came out on the rows that had no part in it"),
        Column("Classes", "mean size of a set"),
        Column("One class", "sets of a single class: as good as an answer"),
        Column("None", "empty sets: nothing is probable enough"),
    ]
    text = (
        "A set of classes holds the true one with a promised probability, whatever the network. The limits were "
        f"fitted on {counted(len(half), 'labelled row')}, drawn at random, and tried on the other {len(other):,}; the "
        "promise is for rows that come from where these come from, and for no others."
    )
    return Section(title, [Paragraph(text), SortableTable("Conformal sets", columns, rows)])

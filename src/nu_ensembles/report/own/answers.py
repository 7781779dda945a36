"""What labels tell: how right the ensemble is, and whether its probabilities mean what they say."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from nu_ensembles import metrics
from nu_ensembles.metrics.bootstrap import wilson
from nu_ensembles.metrics.calibration import equal_width_bins
from nu_ensembles.report.own.given import Given
from nu_ensembles.report.own.pictures import before_and_after
from nu_ensembles.report.own.words import between, counted, percent, points
from nu_ensembles.report.page import Card, Gallery, Paragraph, Picture, Section, Tile

LEVEL, RESAMPLES, SIMULATED = 0.95, 300, 400
# The share of rows that is answered in the headline.
COVERAGE = 0.9
# With more rows the bootstrap and the simulation look at as many of them.
MOST_ROWS = 20_000


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """The labelled rows of a report, and their scores."""

    given: Given

    @functools.cached_property
    def labels(self) -> np.ndarray:
        assert self.given.labels is not None
        return self.given.labels[self.given.labelled]

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        return self.given.probabilities[self.given.labelled].astype(np.float64)

    @functools.cached_property
    def right(self) -> np.ndarray:
        return (self.probabilities.argmax(axis=1) == self.labels).astype(np.float64)

    @functools.cached_property
    def confidence(self) -> np.ndarray:
        return self.probabilities.max(axis=1)

    @functools.cached_property
    def scores(self) -> dict[str, float]:
        """All metrics with their intervals; of very many rows these come from some, drawn at random, and are scaled."""
        n = len(self.labels)
        if n <= MOST_ROWS:
            return metrics.evaluate(self.probabilities, self.labels, intervals=LEVEL, n_resamples=RESAMPLES)
        some = np.random.default_rng(0).permutation(n)[:MOST_ROWS]
        of_some = metrics.evaluate(
            self.probabilities[some], self.labels[some], intervals=LEVEL, n_resamples=RESAMPLES // 4
        )
        scores = metrics.evaluate(self.probabilities, self.labels)
        narrower = (MOST_ROWS / n) ** 0.5
        for name, value in list(scores.items()):
            for end in ("_low", "_high"):
                scores[name + end] = value + (of_some[name + end] - of_some[name]) * narrower
        return scores

    @functools.cached_property
    def chance_ece(self) -> float:
        """The ECE that perfectly calibrated probabilities stay below in 19 of 20 sets of so many rows."""
        confidence = self.confidence[:MOST_ROWS]
        drawn = np.random.default_rng(0).random((SIMULATED, len(confidence))) < confidence
        bins = equal_width_bins(confidence, 15)
        gaps = np.zeros((SIMULATED, 15))
        for number in np.unique(bins):
            here = bins == number
            gaps[:, number] = np.abs((drawn[:, here] - confidence[here]).sum(axis=1))
        return float(np.quantile(gaps.sum(axis=1) / len(confidence), 0.95))

    @functools.cached_property
    def kept(self) -> tuple[float, float, int]:
        """Accuracy among the surest rows, the least confidence among them, and how many they are."""
        order = np.argsort(-self.confidence, kind="stable")[: max(1, round(COVERAGE * len(self.right)))]
        return float(self.right[order].mean()), float(self.confidence[order].min()), len(order)


def card(answers: Answers) -> Card:
    """The five numbers, and what they say in words."""
    scores, n = answers.scores, len(answers.labels)
    kept, least, n_kept = answers.kept

    def interval(name: str) -> str:
        return f"{scores[name + '_low']:.3f} – {scores[name + '_high']:.3f}"

    tiles = [
        Tile("Accuracy", percent(scores["accuracy"]), between(*wilson(scores["accuracy"], n, LEVEL))),
        Tile(
            "Mean confidence", percent(float(answers.confidence.mean())), f"{points(scores['overconfidence'])} points"
        ),
        Tile("NLL", f"{scores['nll']:.3f}", interval("nll")),
        Tile("ECE", f"{scores['ece']:.3f}", f"{answers.chance_ece:.3f} or less is chance"),
        Tile("Surest 90 %", percent(kept), f"right among {n_kept:,}, with confidence from {least:.2f} on"),
    ]
    return Card(tiles, [_how_sure(answers), _calibration(answers)])


def _how_sure(answers: Answers) -> str:
    scores, n = answers.scores, len(answers.labels)
    low, high, gap = scores["overconfidence_low"], scores["overconfidence_high"], scores["overconfidence"]
    interval = f"{points(gap)} points, 95 % interval {points(low)} to {points(high)}"
    said = f"On {counted(n, 'labelled row')} the confidence differs from the accuracy by {interval}:"
    if low > 0:
        return f"{said} it promises too much."
    if high < 0:
        return f"{said} it promises too little."
    return f"{said} neither too much nor too little is promised, as far as so many rows can tell."


def _calibration(answers: Answers) -> str:
    ece, limit = answers.scores["ece"], answers.chance_ece
    chance = f"perfectly calibrated probabilities would come out below {limit:.3f} in 19 of 20 cases on so many rows"
    if ece > limit:
        return f"Its ECE is {ece:.3f}, and {chance}: confidence and accuracy do not quite match."
    return f"Its ECE is {ece:.3f}, but {chance}: no miscalibration is to be seen here."


def reliability(answers: Answers) -> Section:
    """The large picture: a single network, and the ensemble."""
    given = answers.given
    members = given.members[:, given.labelled]
    after = answers.confidence, answers.right
    before, name, told = None, "", ""
    if len(members) > 1:
        right = (members.argmax(axis=2) == answers.labels).astype(np.float64)
        before, name = (members.max(axis=2).astype(np.float64).ravel(), right.ravel()), "its members, one by one"
        told = (
            "Dashed: the members one by one, as any single one of these networks would answer. Solid: what the "
            f"ensemble answers{_beside(given)}. What was gained over a standard ensemble is another question; the "
            "verdict of the training, below, says what is known of it. "
        )
    elif given.beside:
        of_one = members[0].astype(np.float64)
        before = of_one.max(axis=1), (of_one.argmax(axis=1) == answers.labels).astype(np.float64)
        name, told = "the network alone", f"Dashed: as the network answers. Solid: {given.beside}. "
    caption = "Band: 95 % bootstrap interval. Hollow points stand for fewer than 10 predictions."
    ece = answers.scores["ece"]
    alt = f"Reliability diagram on {counted(len(answers.labels), 'row')}: ECE {ece:.3f}."
    text = (
        "Of the predictions made with a confidence of 80 %, about 80 % should be right. Below the dotted line the "
        f"answers are surer than they are right, above it less sure. {told}"
    ).strip()
    picture = Picture(before_and_after(before, after, name), caption, alt)
    return Section("Are the probabilities right?", [Paragraph(text), Gallery([picture], wide=False)])


def _beside(given: Given) -> str:
    return f", {given.beside}" if given.beside else ""

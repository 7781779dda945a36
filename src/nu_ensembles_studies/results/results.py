"""What a study found: its rows with the records of their cells.

The export holds every record, how it was made and by which commands, so that tables and pages can be drawn from it
again without the folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import storage
from nu_ensembles.errors import unknown_name
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.published import METRICS
from nu_ensembles_studies.declare.study import Place, Row, Study, cells_of
from nu_ensembles_studies.results.folder import DONE, FAILED, Record
from nu_ensembles_studies.results.intervals import Interval, interval_of
from nu_ensembles_studies.results.json_numbers import stored_value

# Version 1 proves nothing of its integrity.
FORMAT = 2
# What a candidate's scores on the validation rows come to; the lowest is taken. "published" is what the paper's code
# minimises. The NLL, a proper score, rewards accuracy and calibration at their natural rate of exchange.
CRITERIA: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "published": lambda scores: (1.0 - scores["accuracy"]) ** 2 + scores["tace"] ** 2,
    "nll": lambda scores: stored_value(scores, "nll"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """The rows of a study and what was measured for them.

    Attributes:
      study, options, rows: what was declared.
      records: by the cell's identity; a cell that is missing here was not trained.
      about: commands and environment of the runs.
    """

    study: Study
    options: StudyOptions
    rows: Sequence[Row]
    records: Mapping[StudyCell, Record]
    about: Mapping[str, Any]
    _choices: dict[int, list[tuple[Record, int] | None]] = dataclasses.field(default_factory=dict, repr=False)

    def export(self, path: str | Path) -> None:
        """Writes everything that the rows rest on as one compact JSON file."""
        records = self.declared()
        chosen = [] if self.study.slim else [choice for row in self.rows for choice in self.chosen(row)]
        in_full = {(record.cell.identity, epochs) for record, epochs in filter(None, chosen)}
        makers: list[dict[str, str]] = []
        cells = []
        for record in records:
            maker = dict(record.maker)
            if maker not in makers:
                makers.append(maker)
            measured = self._exported(record, in_full)
            cells.append(record.to_dict() | {"maker": makers.index(maker), "measured": measured})
        head = {
            "format": FORMAT,
            "study": self.study.name,
            "options": self.options.to_dict(),
            **self.about,
            "training_seconds": round(sum(record.seconds for record in records), 1),
            "makers": makers,
        }
        lines = ",\n".join(json.dumps(cell, separators=(",", ":"), allow_nan=False) for cell in cells)
        text = json.dumps(head, indent=1, allow_nan=False)[:-2] + f',\n "cells": [\n{lines}\n]\n}}\n'
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        storage.write_stamped(path, text.encode())

    @staticmethod
    def _exported(record: Record, in_full: set[tuple[StudyCell, int]]) -> dict[str, Any]:
        """What was measured, cut down to the main scores at epochs that no row shows."""
        if "epochs" not in record.measured:
            return dict(record.measured)
        found = {}
        for epochs, scores in record.measured["epochs"].items():
            whole = (record.cell.identity, int(epochs)) in in_full or "test" not in scores
            found[epochs] = {**scores, **_main_scores(scores, ("scaled", "validation"))} if whole else slimmed(scores)
        return {**record.measured, "epochs": found}

    def chosen(self, row: Row) -> list[tuple[Record, int] | None]:
        """For each seed the record and epochs that the row takes; None where the cell is missing or failed."""
        # Every score of a row asks for it, and a grid has hundreds of candidates.
        if id(row) not in self._choices:
            self._choices[id(row)] = [
                choose([(self.records.get(cell.identity), epochs) for cell, epochs in candidates], self.options.rule)
                for candidates in row.candidates
            ]
        return self._choices[id(row)]

    def values(self, row: Row, metric: str, part: str = "test") -> np.ndarray:
        """A metric on every seed, `[S]`, nan where it is missing.

        Args:
          part: "test", "scaled" (after temperature scaling), "validation", "unlabeled", or "" for single values.
        """
        found = []
        for choice in self.chosen(row):
            scores: Any = {} if choice is None else choice[0].at(choice[1])
            of_part = (scores.get(part) or {}) if part else scores
            if metric not in of_part and part == "scaled" and choice is not None:
                of_part = scores["test"]  # what temperature leaves as it is: the members' votes
            found.append(stored_value(of_part, metric))
        return np.array(found, np.float64)

    def further(self, row: Row, name: str) -> list[Any]:
        """For each seed what was measured besides (such as "prefixes"), or None."""
        return [None if choice is None else choice[0].at(choice[1]).get(name) for choice in self.chosen(row)]

    def mean(self, row: Row, metric: str, part: str = "test") -> Interval:
        """Mean over the seeds that are there, with its Student-t interval."""
        return interval_of(self.values(row, metric, part))

    def difference(self, row: Row, reference: Row, metric: str, parts: tuple[str, str] = ("test", "test")) -> Interval:
        """Mean over seeds of row - reference, seed by seed; seeds on which both are infinite are left out."""
        with np.errstate(invalid="ignore"):  # of ∞ - ∞, which is nan as intended
            return interval_of(self.values(row, metric, parts[0]) - self.values(reference, metric, parts[1]))

    def find(self, method: str, place: Place, **varied: Any) -> Row | None:
        """The first row of a method at a place with these values of what was varied."""
        for row in self.rows:
            fitting = all(row.value_of(name) == value for name, value in varied.items())
            if row.method == method and row.place == place and fitting:
                return row
        return None

    def places(self) -> list[Place]:
        """Where the rows are, each place once, in order."""
        return list(dict.fromkeys(row.place for row in self.rows))

    def at(self, place: Place) -> list[Row]:
        """The rows of a place."""
        return [row for row in self.rows if row.place == place]

    def pairs(self) -> list[tuple[Place, Row, Row]]:
        """Every place that has them, with its row of the standard ensemble and of nu."""
        found = ((place, self.find("standard", place), self.find("nu", place)) for place in self.places())
        return [(place, standard, nu) for place, standard, nu in found if standard is not None and nu is not None]

    def across_sizes(self) -> dict[Place, list[Row]]:
        """The rows by place, whatever their number of labels; a place has the smallest one."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.dataset, row.model, row.protocol), []).append(row)
        return {min((row.place for row in rows), key=lambda place: place.n_train): rows for rows in groups.values()}

    def declared(self) -> list[Record]:
        """The records of cells that the rows name; a folder may hold others from earlier commands."""
        return [found for cell in cells_of(self.rows) if (found := self.records.get(cell.identity)) is not None]

    def failures(self) -> list[Record]:
        """Cells that failed, with their reasons."""
        return [record for record in self.declared() if record.status == FAILED]

    def missing(self) -> list[StudyCell]:
        """Cells that were declared and have no record, or none of that length."""
        found = []
        for cell in cells_of(self.rows):
            record = self.records.get(cell.identity)
            if record is None or (record.status != FAILED and not record.covers(cell)):
                found.append(cell)
        return found

    def makers(self) -> list[Mapping[str, str]]:
        """Who made the records, each once."""
        return list({json.dumps(dict(r.maker), sort_keys=True): r.maker for r in self.records.values()}.values())


def choose(candidates: Sequence[tuple[Record | None, int]], rule: str) -> tuple[Record, int] | None:
    """The best of (record, epochs); a single candidate needs no validation rows. None if none of them is done."""
    if rule not in CRITERIA:
        raise unknown_name("selection rule", rule, CRITERIA)
    done = [(r, epochs) for r, epochs in candidates if r is not None and r.status == DONE and epochs in r.cell.epochs]
    if len(candidates) == 1 or not done:
        return done[0] if done else None
    return min(done, key=lambda each: CRITERIA[rule](each[0].at(each[1])["validation"]))


def slimmed(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The main scores of one epoch: what the columns of Table 1 and the selection need."""
    kept = {name: scores[name] for name in ("temperature", "unlabeled") if name in scores}
    return _main_scores(scores, ("test", "scaled", "validation")) | kept


def _main_scores(scores: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """The columns of Table 1, and no other metric, of these parts."""
    return {part: {m: scores[part][m] for m in METRICS if m in scores[part]} for part in parts if part in scores}

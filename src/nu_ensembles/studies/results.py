"""What a study found: its rows with the records of their cells, from a folder or from one exported file.

The export holds every record, how it was made and by which commands, so that tables and pages can be drawn from it
again without the folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import storage
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.comparison import Interval, student_interval
from nu_ensembles.studies.folder import FAILED, Record, StudyFolder
from nu_ensembles.studies.numbers import stored_value
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.published import METRICS
from nu_ensembles.studies.selection import choose
from nu_ensembles.studies.study import Row, Study, cells_of

FORMAT = 1


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
    records: Mapping[Cell, Record]
    about: Mapping[str, Any]
    _choices: dict[int, list[tuple[Record, int] | None]] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Reads a study's folder, or a file that `export` wrote."""
        path = Path(path)
        if path.is_dir():
            folder = StudyFolder(path)
            about, records = folder.about(), folder.records
        else:
            about = storage.read_json(path, "The results of a study")
            if not isinstance(about, dict) or not {"cells", "study", "format", "makers"} <= set(about):
                raise InputError(f"{path} holds no results of a study: give a folder or a file that `study` wrote.")
            if about["format"] > FORMAT:
                raise DamagedFileError(f"{path} was written by a newer version; upgrade nu-ensembles to read it.")
            records = partial(_records_of_file, about)
        try:
            return cls._of(about, records())
        except InputError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(
                f"{path} holds no results that this version can read ({type(error).__name__}: {error}); if a newer one "
                "wrote it, upgrade nu-ensembles."
            ) from None

    @classmethod
    def _of(cls, about: Mapping[str, Any], records: Iterable[Record]) -> Results:
        from nu_ensembles.studies.registry import find_study

        study, options = find_study(about["study"]), StudyOptions.from_dict(about["options"])
        kept = {name: about[name] for name in ("commands", "environment", "seconds") if name in about}
        by_cell = {record.cell.identity: record for record in records}
        return cls(study, options, study.declare(options), by_cell, kept)

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
        storage.write_bytes(path, text.encode())

    @staticmethod
    def _exported(record: Record, in_full: set[tuple[Cell, int]]) -> dict[str, Any]:
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

    def extras(self, row: Row, name: str) -> list[Any]:
        """For each seed what was measured besides (such as "prefixes"), or None."""
        return [None if choice is None else choice[0].at(choice[1]).get(name) for choice in self.chosen(row)]

    def mean(self, row: Row, metric: str, part: str = "test") -> Interval:
        """Mean over the seeds that are there, with its Student-t interval."""
        return _interval(self.values(row, metric, part))

    def difference(self, row: Row, reference: Row, metric: str, parts: tuple[str, str] = ("test", "test")) -> Interval:
        """Mean over seeds of row - reference, seed by seed; seeds on which both are infinite are left out."""
        with np.errstate(invalid="ignore"):  # of ∞ - ∞, which is nan as intended
            return _interval(self.values(row, metric, parts[0]) - self.values(reference, metric, parts[1]))

    def find(self, method: str, place: tuple[str, int, str, str], **settings: Any) -> Row | None:
        """The first row of a method at a place (data set, n, model, protocol) with these settings."""
        for row in self.rows:
            fitting = all(row.setting(name) == value for name, value in settings.items())
            if row.method == method and row.place == place and fitting:
                return row
        return None

    def places(self) -> list[tuple[str, int, str, str]]:
        """Data set, n, model and protocol of the rows, each once, in order."""
        return list(dict.fromkeys(row.place for row in self.rows))

    def declared(self) -> list[Record]:
        """The records of cells that the rows name; a folder may hold others from earlier commands."""
        return [found for cell in cells_of(self.rows) if (found := self.records.get(cell.identity)) is not None]

    def failures(self) -> list[Record]:
        """Cells that failed, with their reasons."""
        return [record for record in self.declared() if record.status == FAILED]

    def missing(self) -> list[Cell]:
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


def _records_of_file(entry: Mapping[str, Any]) -> list[Record]:
    makers = entry["makers"]
    return [Record.from_dict({**cell, "maker": makers[cell["maker"]]}) for cell in entry["cells"]]


def slimmed(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The main scores of one epoch: what the columns of Table 1 and the selection need."""
    kept = {name: scores[name] for name in ("temperature", "unlabeled") if name in scores}
    return _main_scores(scores, ("test", "scaled", "validation")) | kept


def _main_scores(scores: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """The columns of Table 1, and no other metric, of these parts."""
    return {part: {m: scores[part][m] for m in METRICS if m in scores[part]} for part in parts if part in scores}


def _interval(values: np.ndarray) -> Interval:
    present = values[~np.isnan(values)]
    return student_interval(present) if len(present) else Interval(float("nan"), float("nan"))

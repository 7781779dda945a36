"""A study on disk: `study.json` (what was asked, on which machine) and one sealed file for each finished cell.

A cell's file appears whole or not at all, so a kill at any moment loses no finished cell; a file that does not prove
its own integrity counts as not done.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nu_ensembles import storage
from nu_ensembles.contents import parsed
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.results.forms import AboutForm, RecordForm
from nu_ensembles_studies.results.makers import refuse_others

STUDY, CELLS, PROBABILITIES = "study.json", "cells", "probabilities"
DONE, FAILED = "done", "failed"


@dataclasses.dataclass(frozen=True)
class Record:
    """What came of a cell.

    Attributes:
      cell: with the epochs at which it was measured.
      status: "done", or "failed" with a `reason`.
      maker: version, device, code; see `makers.py`.
      measured: what the measurement found, plain values.
      seconds: its share of the wall-clock time, compilation included.
    """

    cell: StudyCell
    status: str
    maker: Mapping[str, str]
    measured: Mapping[str, Any]
    seconds: float = 0.0
    reason: str = ""

    def covers(self, cell: StudyCell) -> bool:
        """Whether everything that `cell` asks for stands here."""
        return self.status == DONE and set(cell.epochs) <= set(self.cell.epochs)

    def at(self, epochs: int) -> Mapping[str, Any]:
        """What was measured after so many epochs."""
        return self.measured["epochs"][str(epochs)]

    def to_dict(self) -> dict[str, Any]:
        ordered = ("cell", "status", "reason", "seconds", "maker", "measured")
        return {name: getattr(self, name) for name in ordered} | {"cell": self.cell.to_dict()}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Record:
        """The record of a checked form (see `forms.py`)."""
        return cls(**{**entry, "cell": StudyCell.from_dict(entry["cell"])})

    @classmethod
    def parsed(cls, entry: Any, where: str) -> Record:
        """The record that a file holds, once it is one.

        Args:
          where: the file, to begin sentences with.
        """
        found = parsed(RecordForm, entry, where)
        values = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        return cls.from_dict({**values, "cell": vars(found.cell)})


class StudyFolder:
    """The folder of a study; made at the first write."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._damaged: set[Path] = set()  # files that were told of

    def start(self, study: str, options: Mapping[str, Any], command: str, environment: Mapping[str, Any]) -> None:
        """Writes down what was asked for, beside the commands and the time of earlier runs.

        A folder of another study is refused.
        """
        path = self.folder / STUDY
        commands, seconds = [], 0.0
        if path.exists():
            earlier = self.about()
            if earlier.study != study:
                raise InputError(
                    f"{self.folder} holds the study {earlier.study!r}; choose another --out for {study!r}."
                )
            commands = [each for each in earlier.commands if each != command]
            seconds = earlier.seconds
        elif self.folder.is_dir() and not self._is_hardly_begun():
            raise InputError(f"{self.folder} holds something else than a study; choose another --out.")
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"study": study, "options": dict(options), "commands": [*commands, command], "seconds": seconds}
        # Before anything else: what the folder is can be told from its first file on.
        storage.write_stamped_json(path, about | {"environment": dict(environment)})

    def _is_hardly_begun(self) -> bool:
        """Whether it is empty, or as older versions left it that were killed at their start."""
        entries = list(self.folder.iterdir())
        return not entries or (entries == [self.folder / CELLS] and not any(entries[0].iterdir()))

    def about(self) -> AboutForm:
        """The content of `study.json`."""
        path = self.folder / STUDY
        if not path.exists():
            raise InputError(f"{self.folder} holds no study: name a folder that `nu-ensembles study` wrote.")
        found, _ = storage.read_stamped_json(path, "The description of a study")
        return parsed(AboutForm, found, f"The description of a study {path}")

    def add_time(self, seconds: float) -> None:
        """Notes that a run took so long."""
        about = self.about()
        entry = dataclasses.asdict(about) | {"seconds": round(about.seconds + seconds, 1)}
        storage.write_stamped_json(self.folder / STUDY, entry)

    def save(self, record: Record, probabilities: Mapping[str, Any] | None = None) -> None:
        """Writes a cell's record, and its arrays beside it if there are any, in this order: arrays first."""
        if probabilities:
            (self.folder / PROBABILITIES).mkdir(exist_ok=True)
            storage.save_arrays(self.folder / PROBABILITIES / f"{record.cell.name}.safetensors", probabilities)
        (self.folder / CELLS).mkdir(exist_ok=True)
        storage.write_sealed_json(self._path(record.cell), record.to_dict())

    def load(self, cell: StudyCell) -> Record | None:
        """The record of a cell, or None if there is none or it is damaged."""
        path = self._path(cell)
        found = self._read(path) if path.exists() else None
        return found if found is None or found.cell.identity == cell.identity else None

    def records(self) -> list[Record]:
        """All records that are whole, by file name."""
        found = [self._read(path) for path in sorted((self.folder / CELLS).glob("*.json"))]
        return [record for record in found if record is not None]

    def refuse_other_makers(self, maker: Mapping[str, str]) -> None:
        """Raises if any cell here was made by another version, device or code."""
        refuse_others(self.folder, (record.maker for record in self.records()), maker)

    def _read(self, path: Path) -> Record | None:
        try:
            return Record.parsed(storage.read_sealed_json(path, "The cell"), f"The cell {path}")
        except DamagedFileError:
            if path not in self._damaged:
                print(f"{path} is damaged, so this cell counts as not done.", file=sys.stderr)
                self._damaged.add(path)
            return None

    def _path(self, cell: StudyCell) -> Path:
        return self.folder / CELLS / f"{cell.name}.json"

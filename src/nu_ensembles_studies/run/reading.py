"""Results as they lie on disk: the folder of a study, or the one file that a study exports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nu_ensembles import storage
from nu_ensembles.contents import parsed, whole
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.registry import find_study
from nu_ensembles_studies.results.folder import Record, StudyFolder
from nu_ensembles_studies.results.forms import AboutForm, ResultsForm
from nu_ensembles_studies.results.results import FORMAT, Results


def read_results(path: str | Path) -> Results:
    """Reads a study's folder, or a file that `Results.export` wrote."""
    path = Path(path)
    if path.is_dir():
        folder = StudyFolder(path)
        return _results(folder.about(), folder.records())
    where = f"The results of a study {path}"
    found, stamped = storage.read_stamped_json(path, "The results of a study")
    if not isinstance(found, dict) or not {"cells", "study", "format", "makers"} <= set(found):
        raise InputError(f"{path} holds no results of a study: give a folder or a file that `study` wrote.")
    version = whole(1)(found["format"], f"{where}: 'format'")
    if version > FORMAT:
        raise DamagedFileError(f"{path} was written by a newer version; upgrade nu-ensembles to read it.")
    if version > 1 and not stamped:
        raise storage.altered(where)
    about = parsed(ResultsForm, found, where)
    cells = enumerate(about.records(where))
    return _results(about, [Record.parsed(cell, f"{where}: 'cells'[{number}]") for number, cell in cells])


def _results(about: AboutForm, records: Iterable[Record]) -> Results:
    study, options = find_study(about.study), StudyOptions.from_dict(vars(about.options))
    kept: dict[str, Any] = {"commands": list(about.commands), "seconds": about.seconds}
    if about.environment is not None:
        kept["environment"] = dict(about.environment)
    by_cell = {record.cell.identity: record for record in records}
    return Results(study, options, study.declare(options), by_cell, kept)

"""Results as they lie on disk: the folder of a study, or the one file that a study exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nu_ensembles import storage
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.registry import find_study
from nu_ensembles_studies.results.folder import Record, StudyFolder
from nu_ensembles_studies.results.results import FORMAT, Results


def read_results(path: str | Path) -> Results:
    """Reads a study's folder, or a file that `Results.export` wrote."""
    path = Path(path)
    try:
        if path.is_dir():
            folder = StudyFolder(path)
            return _results(folder.about(), folder.records())
        about = storage.read_json(path, "The results of a study")
        if not isinstance(about, dict) or not {"cells", "study", "format", "makers"} <= set(about):
            raise InputError(f"{path} holds no results of a study: give a folder or a file that `study` wrote.")
        if about["format"] > FORMAT:
            raise DamagedFileError(f"{path} was written by a newer version; upgrade nu-ensembles to read it.")
        makers = about["makers"]
        cells = ({**cell, "maker": makers[cell["maker"]]} for cell in about["cells"])
        return _results(about, [Record.from_dict(cell) for cell in cells])
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{path} holds no results that this version can read ({type(error).__name__}: {error}); if a newer one "
            "wrote it, upgrade nu-ensembles."
        ) from None


def _results(about: Mapping[str, Any], records: Iterable[Record]) -> Results:
    study, options = find_study(about["study"]), StudyOptions.from_dict(about["options"])
    kept = {name: about[name] for name in ("commands", "environment", "seconds") if name in about}
    by_cell = {record.cell.identity: record for record in records}
    return Results(study, options, study.declare(options), by_cell, kept)

"""Results that were measured in several runs, as one: more data sets, networks, methods or seeds, or another study."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.folder import DONE, Record
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.provenance import in_words
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.study import Study

LISTS = ("datasets", "models", "methods", "protocols", "n")


def merged(parts: Sequence[Results], mixed: bool = False) -> Results:
    """The results of all runs.

    What was asked for is taken together, list by list, so that a combination that no run measured shows as missing. Of
    two records of a cell the longer one is kept, and the later of two equals.

    Args:
      mixed: allow cells of several versions, devices or codes; each keeps its maker.
    """
    study = parts[0].study
    for part in parts:
        if part.study.name != study.name:
            raise InputError(f"Results of {study.name!r} and {part.study.name!r} are no one study; merge each alone.")
    makers = {in_words(maker): maker for part in parts for maker in part.makers()}
    if len(makers) > 1 and not mixed:
        raise InputError(
            f"These results were made by {' and by '.join(makers)}: add --mixed to have them in one file, each cell "
            "with its maker beside it."
        )
    options = _together([part.options for part in parts])
    records: dict[Cell, Record] = {}
    for part in parts:
        for cell, record in part.records.items():
            if cell not in records or _worth(record) >= _worth(records[cell]):
                records[cell] = record
    return Results(study, options, study.declare(options), records, _about(parts))


def usable(earlier: Results, study: Study, cells: Sequence[Cell]) -> list[Record]:
    """The records of an earlier run that a study can take over; each keeps its maker.

    Of the same study all. Of another one those of the cells that it trained in the same way and measured at least as
    much of: the networks of `corruptions` are those of `table1`.

    Raises:
      InputError: there are none.
    """
    if earlier.study.name == study.name:
        return list(earlier.records.values())
    found = [record for cell in cells if (record := _serving(cell, earlier)) is not None]
    if not found:
        raise InputError(
            f"The results to start from are those of {earlier.study.name!r} and hold nothing that {study.name!r} asks "
            "for."
        )
    return found


def _serving(cell: Cell, earlier: Results) -> Record | None:
    """A record of the same training that measured what the cell asks for; what it does not ask for is left out."""
    for other, record in earlier.records.items():
        alike = dataclasses.replace(other, also=cell.also) == cell.identity and set(cell.also) <= set(other.also)
        if alike and record.covers(cell):
            beside = set(other.also) - set(cell.also)
            epochs = {
                at: {name: value for name, value in scores.items() if name not in beside}
                for at, scores in record.measured["epochs"].items()
            }
            asked = dataclasses.replace(record.cell, also=cell.also)
            return dataclasses.replace(record, cell=asked, measured={**record.measured, "epochs": epochs})
    return None


def _worth(record: Record) -> tuple[bool, int]:
    return record.status == DONE, len(record.cell.epochs)


def _together(all_options: Sequence[StudyOptions]) -> StudyOptions:
    first = all_options[0]
    changes: dict[str, Any] = {name: _union(getattr(each, name) for each in all_options) for name in LISTS}
    start = min(each.first_seed for each in all_options)
    changes |= {"first_seed": start, "seeds": max(each.seed_list.stop for each in all_options) - start}
    found = dataclasses.replace(first, **changes)
    for each in all_options:
        kept = {name: getattr(found, name) for name in changes}
        if dataclasses.replace(each, **kept, data_dir=None) != dataclasses.replace(found, data_dir=None):
            raise InputError(
                f"{' '.join(first.as_arguments())} and {' '.join(each.as_arguments())} differ in more than data sets, "
                "networks, methods, protocols, sizes and seeds."
            )
        if bool(each.n) != bool(first.n):
            raise InputError("Some of these runs asked for sizes with --n and others did not; they cannot be merged.")
    return found


def _union(lists: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(value for each in lists for value in each))


def _about(parts: Sequence[Results]) -> dict[str, Any]:
    commands = dict.fromkeys(command for part in parts for command in part.about["commands"])
    seconds = sum(part.about.get("seconds", 0.0) for part in parts)
    return {**parts[-1].about, "commands": list(commands), "seconds": round(seconds, 1)}

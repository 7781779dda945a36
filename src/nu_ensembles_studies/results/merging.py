"""Results that were measured in several runs, as one: more data sets, networks, methods or seeds, or another study."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import Study
from nu_ensembles_studies.results.folder import DONE, Record
from nu_ensembles_studies.results.makers import in_words
from nu_ensembles_studies.results.results import Results

LISTS = ("datasets", "models", "methods", "protocols", "n")


def merged(parts: Sequence[Results], mixed: bool = False) -> Results:
    """The results of all runs.

    What was asked for is taken together, list by list, so that a combination that no run measured shows as missing. Two
    records of a cell by one maker are one at the epochs of both; by two makers the longer one is kept, and the later of
    equals.

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
    options = _together(study, [part.options for part in parts], mixed)
    records: dict[StudyCell, Record] = {}
    for part in parts:
        for cell, record in part.records.items():
            records[cell] = _united(records[cell], record) if cell in records else record
    return Results(study, options, study.declare(options), records, _about(parts))


def usable(earlier: Results, study: Study, cells: Sequence[StudyCell]) -> list[Record]:
    """The records of an earlier run that a study can take over; each keeps its maker.

    Of the same study those that it asks for and that hold all they measured: a file of results keeps no more than the
    main scores of epochs that its rows do not show. Of another one those of the cells that it trained in the same way
    and measured at least as much of: the networks of `corruptions` are those of `table1`.

    Raises:
      InputError: there are none.
    """
    if earlier.study.name == study.name:
        stored = [record for cell in cells if (record := earlier.records.get(cell.identity)) is not None]
        return [record for record in stored if _in_full(record)]
    found = [record for cell in cells if (record := _serving(cell, earlier)) is not None]
    if not found:
        raise InputError(
            f"The results to start from are those of {earlier.study.name!r} and hold nothing that {study.name!r} asks "
            "for."
        )
    return found


def _serving(cell: StudyCell, earlier: Results) -> Record | None:
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


def _in_full(record: Record) -> bool:
    return all(set(record.cell.also) <= set(scores) for scores in record.measured.get("epochs", {}).values())


def _united(earlier: Record, later: Record) -> Record:
    """Two records of a cell as one."""
    longer = later if _worth(later) >= _worth(earlier) else earlier
    both = earlier, later
    if dict(earlier.maker) != dict(later.maker) or any(r.status != DONE or "epochs" not in r.measured for r in both):
        return longer
    of_both = [record.measured["epochs"] for record in both]
    # A file of results holds less about epochs that its rows do not show.
    epochs = {at: max((of[at] for of in reversed(of_both) if at in of), key=_n_scores) for of in of_both for at in of}
    cell = dataclasses.replace(longer.cell, epochs=earlier.cell.epochs + later.cell.epochs)
    return dataclasses.replace(longer, cell=cell, measured={**longer.measured, "epochs": epochs})


def _n_scores(scores: Mapping[str, Any]) -> int:
    return sum(len(part) if isinstance(part, Mapping) else 1 for part in scores.values())


def _worth(record: Record) -> tuple[bool, int]:
    return record.status == DONE, len(record.cell.epochs)


def _together(study: Study, all_options: Sequence[StudyOptions], mixed: bool) -> StudyOptions:
    first = all_options[0]
    changes: dict[str, Any] = {name: _union(getattr(each, name) for each in all_options) for name in LISTS}
    start = min(each.first_seed for each in all_options)
    changes |= {"first_seed": start, "seeds": max(each.seed_list.stop for each in all_options) - start}
    found = dataclasses.replace(first, **changes)
    backends = sorted({each.backend for each in all_options})
    if len(backends) > 1:
        declared = [study.declare(dataclasses.replace(found, backend=backend)) for backend in backends]
        if not mixed or any(rows != declared[0] for rows in declared):
            raise InputError(
                f"These runs took other types of activations on {' and '.join(backends)}, so they have no cells in "
                "common; draw a page of each, or give both the same --dtype."
            )
        changes["backend"] = first.backend
    for each in all_options:
        if dataclasses.replace(each, **{name: getattr(found, name) for name in changes}) != found:
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

"""What a request may hold: JSON with rows, checked and turned into what the networks take.

`{"rows": [[5.1, 3.5], …]}` for arrays and images, nested as their shape is; for tables of columns also
`{"rows": [{"age": 31, "city": "Ulm", "bought": "2024-01-31"}, …]}`, where null is a gap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.export import CompiledEnsemble
from nu_ensembles.tables import RawColumn, RawTable, listed, refuse_missing
from nu_ensembles.tables.column import NO_DATE, date_from_text, encoded, plain_number

MOST_ROWS = 10_000


def rows_of_request(compiled: CompiledEnsemble, body: bytes) -> np.ndarray:
    """The network rows of a request.

    Raises:
      InputError: saying in one sentence what is wrong with it.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError('The request is no JSON; send {"rows": [[…], …]}.') from None
    if not isinstance(request, dict) or "rows" not in request:
        raise InputError('The request lacks "rows"; send {"rows": [[…], …]}.')
    if unknown := sorted(set(request) - {"rows"}):
        raise InputError(f'The request has fields that are not known ({listed(unknown)}); send {{"rows": [[…], …]}}.')
    rows = request["rows"]
    if not isinstance(rows, list) or not rows:
        raise InputError('"rows" must be a list of at least one row.')
    if len(rows) > MOST_ROWS:
        raise InputError(f'"rows" holds {len(rows)} rows; send at most {MOST_ROWS} at a time.')
    encoding = compiled.ensemble.encoding
    if encoding is not None:
        names = [each.name for each in encoding.encoders if each.kind is not None]
        return compiled.rows(_table(compiled, rows, names))
    columns = compiled.ensemble.columns
    if isinstance(rows[0], dict) and columns is not None:
        rows = [[cells[name] for name in columns] for cells in _records(rows, list(columns))]
    return compiled.rows(_array(rows, compiled.ensemble.pixels and compiled.ensemble.standardisation is None))


def _array(rows: list[Any], pixels: bool) -> np.ndarray:
    """Numbers, nested evenly."""
    try:
        array = np.asarray(rows)
    except (ValueError, OverflowError):
        raise InputError('"rows" must hold rows of equal shape.') from None
    if array.dtype.kind not in "iuf":
        raise InputError('"rows" must hold numbers only, neither text, nor true, false or null.')
    if not pixels:
        # Whole numbers would be taken for pixels if they were bytes; here they are numbers like all others.
        return array.astype(np.float64)
    if array.dtype.kind == "f" or array.min() < 0 or array.max() > 255:
        raise InputError("The model takes pixels: whole numbers from 0 to 255.")
    return array.astype(np.uint8)


def _table(compiled: CompiledEnsemble, rows: list[Any], names: list[str]) -> RawTable:
    encoding = compiled.ensemble.encoding
    assert encoding is not None
    kinds = {each.name: each.kind for each in encoding.encoders}
    if isinstance(rows[0], dict):
        if not encoding.named:
            raise InputError("The model's columns have no names; send each row as a list.")
        records = _records(rows, names, known=list(kinds))
    else:
        records = _positional(rows, list(kinds))
    columns = [_column(name, str(kinds[name]), [record[name] for record in records]) for name in names]
    left_out = [name for name in kinds if name not in names]
    # Columns that were left out in training need not be there; tables without names are matched by place.
    columns += [RawColumn(name, "number", np.zeros(len(rows))) for name in left_out]
    by_name = {each.name: each for each in columns}
    return RawTable(tuple(by_name[name] for name in kinds), named=encoding.named)


def _records(rows: list[Any], names: list[str], known: Sequence[str] = ()) -> list[dict[str, Any]]:
    wanted, allowed = set(names), {*names, *known}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"Row {number} is no object like the first; send all rows alike.")
        if not wanted <= row.keys():
            refuse_missing(names, list(row), f"Row {number}")
        if extra := sorted(row.keys() - allowed):
            raise InputError(
                f"Row {number} has columns that the training rows had not: {listed(extra)}; leave them out."
            )
    return rows


def _positional(rows: list[Any], names: list[str]) -> list[dict[str, Any]]:
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            found = f"{len(row)} values" if isinstance(row, list) else "no list"
            raise InputError(f"Row {number} has {found} where {len(names)} are expected, one for each column.")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _column(name: str, kind: str, cells: list[Any]) -> RawColumn:
    if kind == "number":
        for number, cell in enumerate(cells):
            # NaN is no JSON, though Python writes and reads it: a gap is sent on purpose, as null.
            if isinstance(cell, str | list | dict) or cell != cell:
                raise InputError(
                    f"The column {name!r} holds {str(cell)[:40]!r} in row {number}; send a number or null."
                )
        try:
            return RawColumn(name, "number", np.array([np.nan if cell is None else float(cell) for cell in cells]))
        except OverflowError:
            raise InputError(f"The column {name!r} holds a number beyond every float; correct it.") from None
    if kind == "date":
        return RawColumn(name, "date", np.array([_date(name, *each) for each in enumerate(cells)], "datetime64[us]"))
    return encoded(name, [_word(name, *each) for each in enumerate(cells)])


def _date(name: str, number: int, cell: Any) -> np.datetime64:
    date = NO_DATE if cell is None else date_from_text(cell) if isinstance(cell, str) else None
    if date is None:
        raise InputError(
            f"The column {name!r} holds {str(cell)[:40]!r} in row {number}; send a date such as '2024-01-31' or "
            "'2024-01-31T18:30', or null."
        )
    return date


def _word(name: str, number: int, cell: Any) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) < 1e300:
        return plain_number(float(cell))
    raise InputError(f"The column {name!r} holds {str(cell)[:40]!r} in row {number}; send text or null.")

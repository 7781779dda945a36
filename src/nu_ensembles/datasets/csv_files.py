"""Reads csv files, with the standard library's parser and columns in blocks of rows.

The first line names the columns. Comma, semicolon, tab or bar separates the cells, whichever the first line has most
of. Columns are numbers, dates or text, as their cells say (`cells.py`).
"""

from __future__ import annotations

import csv
import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from nu_ensembles.datasets.cells import CellReader
from nu_ensembles.datasets.columns import feature_columns, labels_from_text
from nu_ensembles.datasets.table import ReadOptions, Table, require_rows, table_of
from nu_ensembles.datasets.text_source import TextSource
from nu_ensembles.errors import DamagedFileError, DataWarning, InputError
from nu_ensembles.tables import RawTable
from nu_ensembles.tables.column import number_from_text

_BLOCK = 4096
_SEPARATOR = re.compile(r"sep=([,;|]?)", re.IGNORECASE)


def read_csv(path: Path, options: ReadOptions) -> Table:
    """Reads a csv file, or standard input for the path "-"."""
    source = TextSource.at(path)
    try:
        table, late = source.read(lambda lines: _read(source.name, lines, options, ()))
        if table is None:
            table, _ = source.read(lambda lines: _read(source.name, lines, options, late))
        assert table is not None  # what is read as text from the start is never late
        return table
    except csv.Error as error:
        raise DamagedFileError(
            f"{source.name} cannot be read as csv ({error}): look for a quotation mark that is never closed, "
            "or save the file again if it was cut off."
        ) from error


def _read(file: str, lines: TextIO, options: ReadOptions, as_text: Sequence[str]) -> tuple[Table | None, list[str]]:
    """The table; or None, and the columns whose words came late and that must be read as text from the start."""
    delimiter, names_from = _delimiter(lines)
    text = itertools.islice(lines, names_from, None)
    # strict, so that a quotation that never closes (a file cut off inside one) is an error.
    rows = (row for row in csv.reader(text, delimiter=delimiter, strict=True) if row)
    names = _header(file, next(rows, []), options)
    features = [name for name in feature_columns(file, names, options) if name]
    position = {name: at for at, name in enumerate(names)}
    declared = options.declared
    readers = {
        name: CellReader(file, name, declared.get(name, (None, ())), delimiter == ",", name in as_text)
        for name in features
    }
    labels: list[str] = []
    kept: dict[str, list[str]] = {name: [] for name in options.keep if name in position}
    n_rows = 0
    for first, block in _blocks(file, rows, width=len(names)):
        cells = list(zip(*block, strict=True))
        for name, reader in readers.items():
            reader.add(cells[position[name]], first)
        for name, column in kept.items():
            column.extend(cells[position[name]])
        if options.target is not None:
            labels.extend(cell.strip() for cell in cells[position[options.target]])
        n_rows += len(block)
    require_rows(file, n_rows)
    late = [name for name, reader in readers.items() if reader.late]
    if late:
        return None, late
    raw = RawTable(tuple(reader.column() for reader in readers.values()))
    y = None if options.target is None else labels_from_text(labels)
    return table_of(raw, y, {name: np.array(column, np.str_) for name, column in kept.items()}), []


def _delimiter(lines: TextIO) -> tuple[str, int]:
    """What separates the cells, and how many lines come before the one of names: spreadsheets write "sep=;" there."""
    at, first = next(((at, line) for at, line in enumerate(lines) if line.strip()), (0, ""))
    lines.seek(0)
    said = _SEPARATOR.fullmatch(first.strip())
    if said:
        return said[1] or "\t", at + 1
    return max(",;\t|", key=first.count), 0


def _header(file: str, cells: Sequence[str], options: ReadOptions) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not names:
        raise DamagedFileError(f"{file} is empty: give a csv file with a line of column names and data.")
    # Numbers alone are data, unless they count the columns, as the headers of unnamed data frames do.
    counted = [str(at) for at in range(len(names))]
    numbers = all(number_from_text(name) is not None for name in names)
    if numbers and names != counted and set(names) != set(options.columns or ()):
        raise InputError(f"The first line of {file} holds only numbers: put a line of column names above it.")
    if "" in names[1:] and "" not in options.drop:
        raise InputError(f"Column {names.index('', 1) + 1} of {file} has no name: name it, or remove it.")
    if names[0] == "" and "" not in options.drop:
        note = f"The first column of {file} has no name; it is taken for row numbers and left out."
        warnings.warn(note, DataWarning, stacklevel=2)
    return names


def _blocks(file: str, rows: Iterable[list[str]], width: int) -> Iterator[tuple[int, list[list[str]]]]:
    """Blocks of complete rows, each with the number of its first row, counted from 1."""
    rows, first = iter(rows), 1
    while block := list(itertools.islice(rows, _BLOCK)):
        for number, row in enumerate(block, first):
            if len(row) != width:
                raise InputError(
                    f"Row {number} of {file} has {len(row)} cells where the header has {width}: "
                    "complete that row, or save the file again if it was cut off."
                )
        yield first, block
        first += len(block)

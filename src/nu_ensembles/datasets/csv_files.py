"""Reads csv files, with the standard library's parser and columns of numbers in blocks of rows.

The first line names the columns. Comma, semicolon or tab separates the cells, whichever the first line has
most of.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nu_ensembles.datasets.columns import empty_label, feature_columns, labels_from_text, not_numeric
from nu_ensembles.datasets.table import ReadOptions, Table, require_rows
from nu_ensembles.errors import DamagedFileError, InputError

# Text exists only for a block at a time: as Python strings a table takes about ten times its room in floats.
_BLOCK = 4096
_WORDS = {"": np.nan, "na": np.nan, "n/a": np.nan, "nan": np.nan, "null": np.nan, "true": 1.0, "false": 0.0}


def read_csv(path: Path, options: ReadOptions) -> Table:
    """Reads a csv file; empty cells of feature columns become `nan`."""
    try:
        # utf-8-sig, because spreadsheets put a byte order mark before the first name.
        with open(path, encoding="utf-8-sig", newline="") as lines:
            delimiter = _delimiter(lines.readline())
            lines.seek(0)
            # strict, so that a quotation that never closes (a file cut off inside one) is an error.
            return _read_rows(path, csv.reader(lines, delimiter=delimiter, strict=True), options)
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path} is not UTF-8 text: save it as csv in UTF-8 again.") from error
    except csv.Error as error:
        raise DamagedFileError(
            f"{path} cannot be read as csv ({error}): look for a quotation mark that is never closed, "
            "or save the file again if it was cut off."
        ) from error


def _read_rows(path: Path, rows: Iterator[list[str]], options: ReadOptions) -> Table:
    filled = (row for row in rows if row)
    names = _header(path, next(filled, []), options)
    features = feature_columns(str(path), names, options)
    position = {name: at for at, name in enumerate(names)}

    blocks, labels = [], []
    for first, block in _blocks(path, filled, width=len(names)):
        cells = list(zip(*block, strict=True))
        numbers = [_numbers(path, name, cells[position[name]], first) for name in features]
        blocks.append(np.stack(numbers, axis=1))
        if options.target is not None:
            labels.extend(_labels(path, options.target, cells[position[options.target]], first))
    require_rows(str(path), len(blocks))
    y = None if options.target is None else labels_from_text(labels)
    return Table(np.concatenate(blocks), y, tuple(features), "table")


def _delimiter(first_line: str) -> str:
    return max(",;\t", key=first_line.count)


def _header(path: Path, cells: Sequence[str], options: ReadOptions) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not names:
        raise DamagedFileError(f"{path} is empty: give a csv file with a line of column names and data.")
    # Numbers alone are data, unless they count the columns, as the headers of unnamed data frames do.
    counted = [str(at) for at in range(len(names))]
    if all(map(_is_number, names)) and names != counted and set(names) != set(options.columns or ()):
        raise InputError(f"The first line of {path} holds only numbers: put a line of column names above it.")
    if "" in names and "" not in options.drop:
        raise InputError(f"Column {names.index('') + 1} of {path} has no name: name it, or remove it.")
    return names


def _blocks(path: Path, rows: Iterable[list[str]], width: int) -> Iterator[tuple[int, list[list[str]]]]:
    """Blocks of complete rows, each with the number of its first row, counted from 1."""
    rows, first = iter(rows), 1
    while block := list(itertools.islice(rows, _BLOCK)):
        for number, row in enumerate(block, first):
            if len(row) != width:
                raise InputError(
                    f"Row {number} of {path} has {len(row)} cells where the header has {width}: "
                    "complete that row, or save the file again if it was cut off."
                )
        yield first, block
        first += len(block)


def _numbers(path: Path, name: str, cells: Sequence[str], first: int) -> np.ndarray:
    """A column's cells as float64; tries the quick way for all of them before looking at each."""
    try:
        # float() would take "2024_01" for the number 202401.
        if "_" not in "".join(cells):
            return np.array([float(cell) for cell in cells])
    except ValueError:
        pass
    numbers = []
    for row, cell in enumerate(cells, first):
        word = cell.strip().lower()
        if word not in _WORDS and not _is_number(word):
            raise not_numeric(str(path), name, f"row {row} holds {cell.strip()[:40]!r}")
        numbers.append(_WORDS[word] if word in _WORDS else float(word))
    return np.array(numbers)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _labels(path: Path, target: str, cells: Sequence[str], first: int) -> list[str]:
    labels = [cell.strip() for cell in cells]
    if "" in labels:
        raise empty_label(str(path), target, first + labels.index(""))
    return labels

"""What the cells of a csv column mean: numbers, dates or text, with the usual spellings of gaps.

A column is read as numbers until a cell is none. Blocks of text exist only while they are read: as Python strings a
table takes about ten times its room in floats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.tables.column import Kind, RawColumn, date_from_text, declared_as, mixes_numbers, number_from_text

GAPS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?", "-", "."})
# Among words "none" is as often an answer as a gap.
_NUMBERS = {**dict.fromkeys(GAPS, np.nan), "none": np.nan, "true": 1.0, "false": 0.0}
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(e[+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?")


class CellReader:
    """Takes a column's cells in blocks and makes a `Column` of them.

    Args:
      file: what to call it in messages.
      declared: the kind, and the levels in their order; (None, ()) for what the cells say.
      comma_splits_cells: so that "1,000" in quotation marks is a thousand.
      as_text: read no cell as a number.

    Attributes:
      late: whether a word came after cells that were read as numbers, whose text is lost: the column must be read
        again, as text.
    """

    def __init__(
        self,
        file: str,
        name: str,
        declared: tuple[Kind | None, tuple[str, ...]] = (None, ()),
        comma_splits_cells: bool = True,
        as_text: bool = False,
    ) -> None:
        self.file, self.name, self.comma_splits_cells = file, name, comma_splits_cells
        self.kind: Kind | None = declared[0]
        self.levels = declared[1]
        self.as_text = as_text or self.kind not in (None, "number")
        self.late = False
        self._blocks: list[np.ndarray] = []
        self._codes: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._first_rows: list[int] = []
        self._styles: set[str] = set()

    def add(self, cells: Sequence[str], first: int) -> None:
        """The next cells; `first` is the number of their first row, counted from 1."""
        if not self.as_text:
            numbers = self._numbers(cells, first)
            if numbers is not None:
                self._blocks.append(numbers)
                return
            self.as_text, self.late = True, bool(self._blocks)
        if not self.late:
            self._blocks.append(self._words(cells, first))

    def column(self) -> RawColumn:
        """What the cells were.

        Raises:
          InputError: numbers in two styles, numbers and words, or something else than the declared kind.
        """
        values = np.concatenate(self._blocks)
        if not self.as_text:
            if "1,5" in self._styles and len(self._styles) > 1:
                ways = " and ".join(sorted(self._styles))
                raise InputError(
                    f"The column {self.name!r} of {self.file} writes numbers in several ways ({ways}): use one of them."
                )
            return RawColumn(self.name, "number", values)
        words = RawColumn(self.name, "category", values, tuple(self._codes))
        if self.kind is not None:
            return declared_as(words, self.kind, self.levels, self.file)
        if self._codes and all(date_from_text(word) is not None for word in self._codes):
            return words.as_kind("date", (), self.file)
        self._refuse_mixture(values)
        return words

    def _numbers(self, cells: Sequence[str], first: int) -> np.ndarray | None:
        """The quick way for all of them, before looking at each; None if one is no number."""
        try:
            # float() would take "2024_01" for the number 202401.
            if "_" not in "".join(cells):
                numbers = np.array([float(cell) for cell in cells])
                self._note_points(cells)
                return numbers
        except ValueError:
            pass
        numbers = []
        for row, cell in enumerate(cells, first):
            number = self._number(cell.strip().lower())
            if number is None:
                if self.kind == "number":
                    raise InputError(
                        f"The column {self.name!r} of {self.file} holds {cell.strip()[:40]!r} in row {row} where "
                        "numbers were expected: correct it."
                    )
                return None
            numbers.append(number)
        return np.array(numbers)

    def _number(self, word: str) -> float | None:
        if word in _NUMBERS:
            return _NUMBERS[word]
        number = number_from_text(word)
        if number is not None:
            if "." in word:
                self._styles.add("1.5")
            return number
        if self.comma_splits_cells and _THOUSANDS.fullmatch(word):
            self._styles.add("1,000")
            return float(word.replace(",", ""))
        if _COMMA.fullmatch(word):
            self._styles.add("1,5")
            return float(word.replace(",", "."))
        return None

    def _note_points(self, cells: Sequence[str]) -> None:
        if "1.5" not in self._styles and any("." in cell for cell in cells):
            self._styles.add("1.5")

    def _words(self, cells: Sequence[str], first: int) -> np.ndarray:
        codes = np.empty(len(cells), np.int32)
        for at, cell in enumerate(cells):
            code = self._known.get(cell)
            if code is None:
                word = cell.strip()
                if word.lower() in GAPS:
                    code = -1
                else:
                    code = self._codes.setdefault(word, len(self._codes))
                    if code == len(self._first_rows):
                        self._first_rows.append(first + at)
                self._known[cell] = code
            codes[at] = code
        return codes

    def _refuse_mixture(self, codes: np.ndarray) -> None:
        counts = np.bincount(codes[codes >= 0], minlength=len(self._codes))
        is_number = np.array([self._number(word.lower()) is not None for word in self._codes], bool)
        if not mixes_numbers(counts, is_number):
            return
        word = int(np.argmax(~is_number))
        raise InputError(
            f"The column {self.name!r} of {self.file} mixes numbers and text (row {self._first_rows[word]} holds "
            f"{list(self._codes)[word][:40]!r}): correct such cells, or declare the column a category."
        )

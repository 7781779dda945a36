"""Named columns: which of a file's columns are features, and what a column of text means.

Columns are matched by name, so a file for prediction may hold them in another order than the training file.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np

from nu_ensembles.datasets.table import NoTargetError, ReadOptions
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables import RawColumn, RawTable, refuse_missing

# No leading zero: the labels "007" and "7" are not the same, and would be if they were read as numbers.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")


# Cells of a column of labels that stand for none; "none" is a class as often as not, and "?" and "-" may be, too.
NO_LABEL = frozenset({"", "nan", "na", "n/a", "#n/a", "<na>", "nat", "null"})
# As Python writes it: the word in capitals or small letters stays a class.
_NONE = "None"
# What a column of labels is often called, the likeliest first.
_TARGETS = ("target", "label", "labels", "class", "y", "species", "outcome", "diagnosis", "category", "kind")
MOST_CLASSES = 30


def feature_columns(file: str, names: Sequence[str], options: ReadOptions) -> list[str]:
    """The names of the feature columns, in the order that `options.columns` wants or that of the file."""
    check_names(file, names, options)
    # What is expected as a feature is one, even if it is to be kept as well.
    kept = set(options.keep) - set(options.columns or ())
    left_out = {options.target, *options.drop, *options.ignore, *kept}
    features = [name for name in names if name not in left_out]
    if options.columns is not None:
        refuse_missing(options.columns, features, file)
        extra = [name for name in features if name not in set(options.columns)]
        if extra:
            note = f"{file} has columns that the training rows had not, which are ignored: {_listed(extra)}."
            warnings.warn(note, DataWarning, stacklevel=2)
        return list(options.columns)
    if not features:
        raise InputError(f"{file} has no feature columns beside {_listed(names)}: add some, or drop less.")
    return features


def check_names(file: str, names: Sequence[str], options: ReadOptions, noun: str = "column") -> None:
    """Refuses a file whose columns cannot be told apart, or that lacks one which was asked for."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{file} has more than one {noun} named {_listed(repeated)}: rename all but one.")
    if options.target is not None and options.target not in names:
        raise NoTargetError(f"{file} has no target {noun} {options.target!r}: {_known(options.target, names)}.")
    to_keep = [name for name in options.keep if name not in options.ignore]
    for job, asked in (("drop", options.drop), ("keep", to_keep)):
        for name in asked:
            if name not in names:
                raise InputError(f"{file} has no {noun} {name!r} to {job}: {_known(name, names)}.")


def labels_from_text(cells: Sequence[str]) -> np.ndarray:
    """Labels `[N]` as int64 or float64 when every cell is such a number, else as text; objects, if some are None."""
    filled = [cell for cell in cells if not _is_no_label(cell)]
    if len(filled) < len(cells):
        labels = iter(labels_from_text(filled).tolist())
        return np.array([None if _is_no_label(cell) else next(labels) for cell in cells], object)
    if any("\0" in cell for cell in cells):
        raise InputError("A label holds a NUL byte, which text of NumPy loses; remove it.")
    if all(map(_INTEGER.fullmatch, cells)):
        return np.array(cells, dtype=np.int64)
    # A decimal point somewhere, so that "007" stays text.
    if any("." in cell for cell in cells) and all(map(_DECIMAL.fullmatch, cells)):
        numbers = np.array(cells, dtype=np.float64)
        # From here on different numbers may be the same in floating point, so these are names.
        if np.abs(numbers).max() < 2**53:
            return numbers
    return np.array(cells, dtype=np.str_)


def _is_no_label(cell: str) -> bool:
    return cell == _NONE or cell.lower() in NO_LABEL


def _known(name: str, names: Sequence[str]) -> str:
    by_lower = {each.lower(): each for each in reversed(names)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" (did you mean {by_lower[near[0]]!r}?)" if near else ""
    return f"name one of {_listed(names)}{hint}"


def likely_target(raw: RawTable) -> str | None:
    """The column that probably holds the labels: one that is called so, or else one at an end that has few levels."""
    by_lower = {name.lower(): name for name in reversed(raw.names)}
    called = [by_lower[name] for name in _TARGETS if name in by_lower]
    # Labels stand at the end of most tables, else at their beginning.
    at_the_ends = [part.name for part in (raw.parts[-1], raw.parts[0]) if _could_be_labels(part)]
    others = [part.name for part in raw.parts if part.kind == "category" and _could_be_labels(part)]
    return next(iter([*called, *at_the_ends, *others]), None)


def _could_be_labels(part: RawColumn) -> bool:
    if part.kind == "date":
        return False
    values = part.values[~part.gaps]
    whole = part.kind != "number" or bool((values == np.floor(values)).all())
    n_levels = len(np.unique(values))
    return whole and 2 <= n_levels <= min(MOST_CLASSES, len(values) // 2)


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence; a file may have thousands."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"

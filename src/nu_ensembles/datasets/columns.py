"""Named columns: which of a file's columns are features, and what a column of text means.

Columns are matched by name, so a file for prediction may hold them in another order than the training file.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from nu_ensembles.datasets.table import ReadOptions
from nu_ensembles.errors import InputError

# No leading zero: the labels "007" and "7" are not the same, and would be if they were read as numbers.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")


def feature_columns(file: str, names: Sequence[str], options: ReadOptions) -> list[str]:
    """The names of the feature columns, in the order that `options.columns` wants or that of the file."""
    check_names(file, names, options)
    left_out = {options.target, *options.drop, *options.ignore}
    features = [name for name in names if name not in left_out]
    if options.columns is not None:
        found, expected = set(features), set(options.columns)
        missing = [name for name in options.columns if name not in found]
        extra = [name for name in features if name not in expected]
        if missing or extra:
            problems = [f"lacks the {_count('expected', missing)}"] if missing else []
            problems += [f"has the {_count('unexpected', extra)}"] if extra else []
            raise InputError(
                f"{file} {' and '.join(problems)}: use the training data's columns, or drop what is extra."
            )
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
        raise InputError(f"{file} has no target {noun} {options.target!r}: {_known(options.target, names)}.")
    for name in options.drop:
        if name not in names:
            raise InputError(f"{file} has no {noun} {name!r} to drop: {_known(name, names)}.")


def not_numeric(file: str, column: str, evidence: str) -> InputError:
    """The error for a feature that is not made of numbers."""
    return InputError(f"The column {column!r} of {file} is not numeric ({evidence}): encode it as numbers, or drop it.")


def empty_label(file: str, target: str, row: int) -> InputError:
    """The error for a missing label; `row` counts data rows from 1."""
    return InputError(
        f"Row {row} of {file} has an empty {target!r}: fill it in, or move unlabelled rows to their own file."
    )


def labels_from_text(cells: Sequence[str]) -> np.ndarray:
    """Labels `[N]` as int64 or float64 when every cell is such a number, else as text."""
    if all(map(_INTEGER.fullmatch, cells)):
        return np.array(cells, dtype=np.int64)
    # A decimal point somewhere, so that "007" stays text.
    if any("." in cell for cell in cells) and all(map(_DECIMAL.fullmatch, cells)):
        return np.array(cells, dtype=np.float64)
    return np.array(cells, dtype=np.str_)


def _known(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"name one of {_listed(names)}{hint}"


def _count(adjective: str, names: Sequence[str]) -> str:
    return f"{adjective} column{'s' if len(names) > 1 else ''} {_listed(names)}"


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence; a file may have thousands."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"

"""Data frames of pandas, polars, Arrow and whatever else narwhals knows, as raw tables.

Frames are told by what they can do, not by whose they are. narwhals is imported when the first one comes.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.tables.column import NO_DATE, RawColumn, as_date, encoded, plain_number, text_or_dates
from nu_ensembles.tables.raw_table import RawTable, refuse_repeated


def is_frame(x: Any) -> bool:
    """Whether it has named columns: a data frame, not an array, a matrix or a list."""
    if isinstance(x, np.ndarray | list | tuple):
        return False
    # Asked of the type first: a lazy frame would have to work out what its columns are.
    names = getattr(type(x), "columns", None) or getattr(x, "columns", None)
    return (names is not None and not callable(names)) or hasattr(x, "__arrow_c_stream__")


def table_of_frame(frame: Any, what: str) -> RawTable:
    """A data frame's columns, each read by its type.

    Args:
      what: to call it in messages.
    """
    import narwhals.stable.v2 as nw

    try:
        found = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError:
        refuse_repeated(_names(frame) or [], what)
        raise
    if isinstance(found, nw.LazyFrame):
        raise InputError(f"{what} is a lazy frame, which holds no rows yet; call its collect() first.")
    names = _names(frame)
    if not isinstance(found, nw.DataFrame):
        return _table_of_another(frame, what)
    columns = [
        _column(f"x{at}" if names is None else names[at], series, what)
        for at, series in enumerate(found.iter_columns())
    ]
    return RawTable(tuple(columns), named=names is not None)


def _table_of_another(frame: Any, what: str) -> RawTable:
    """A frame that narwhals does not know: one that hands itself over as Arrow, or that becomes an array."""
    if not hasattr(frame, "columns") or hasattr(frame, "__arrow_c_stream__"):
        try:
            import pyarrow as pa
        except ImportError:
            raise InputError(
                f"{what} is a {type(frame).__name__}, which needs pyarrow to be read; install that, or convert it to "
                "a frame of pandas or polars."
            ) from None
        try:
            table = pa.table(frame)
        except (TypeError, ValueError):  # Arrow's own errors are such, too
            raise InputError(
                f"{what} is a {type(frame).__name__}, which is no table; give rows with columns."
            ) from None
        return table_of_frame(table, what)
    values, names = np.asarray(frame), _names(frame)
    called = [f"x{at}" for at in range(values.shape[1])] if names is None else names
    if values.dtype.kind in "biuf":
        return RawTable.of_numbers(values, names)
    columns = (column_of_objects(name, values[:, at].tolist(), what) for at, name in enumerate(called))
    return RawTable(tuple(columns), named=names is not None)


def _names(frame: Any) -> list[str] | None:
    """The names of a frame's columns where all are text, as scikit-learn has it."""
    names = getattr(frame, "column_names", None)  # of Arrow's, whose columns are the values
    names = list(getattr(frame, "columns", ()) if names is None else names)
    return [str(name) for name in names] if names and all(isinstance(name, str) for name in names) else None


def _column(name: str, series: Any, what: str) -> RawColumn:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype == nw.Boolean:
        # Arrow casts booleans to whole numbers only.
        return RawColumn(name, "number", np.asarray(series.cast(nw.Int8).cast(nw.Float64).to_numpy(), np.float64))
    if dtype.is_integer() and not series.null_count():
        # Arrow casts no whole number beyond 2^53: not each of them is a float.
        return RawColumn(name, "number", np.asarray(series.to_numpy()).astype(np.float64))
    if dtype.is_integer():
        values = [np.nan if is_gap(value) else float(value) for value in series.to_list()]
        return RawColumn(name, "number", np.array(values, np.float64))
    if dtype.is_numeric():
        return RawColumn(name, "number", np.asarray(series.cast(nw.Float64).to_numpy(), np.float64))
    if dtype == nw.Duration:
        return _seconds(name, series.to_numpy())
    if dtype in (nw.Date, nw.Datetime):
        if getattr(dtype, "time_zone", None) is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return RawColumn(name, "date", np.asarray(series.cast(nw.Datetime("us")).to_numpy(), "datetime64[us]"))
    if dtype == nw.String:
        return text_or_dates(name, (value if isinstance(value, str) else None for value in series.to_list()))
    if dtype in (nw.Categorical, nw.Enum):
        words = [None if is_gap(value) else _word(value) for value in series.to_list()]
        return encoded(name, words, _declared_order(series))
    if dtype in (nw.Object, nw.Time):
        return column_of_objects(name, series.to_list(), what)
    raise InputError(
        f"The column {name!r} of {what} has the type {dtype}; turn it into numbers, text or dates, or drop it."
    )


def _declared_order(series: Any) -> list[str] | None:
    """The levels of a categorical whose owner said that they are ordered.

    An Enum of polars always has an order, so that having one says nothing there.
    """
    native = series.to_native()
    if getattr(getattr(native, "cat", None), "ordered", False) is True:  # pandas
        return [_word(level) for level in native.cat.categories]
    if getattr(getattr(native, "type", None), "ordered", False) is True:  # Arrow
        chunks = native.unify_dictionaries().chunks
        return [_word(level) for level in chunks[0].dictionary.to_pylist()] if chunks else None
    return None


def _seconds(name: str, durations: np.ndarray) -> RawColumn:
    seconds = durations / np.timedelta64(1, "s")
    return RawColumn(name, "number", np.where(np.isnat(durations), np.nan, seconds))


def column_of_objects(name: str, values: Sequence[Any], what: str) -> RawColumn:
    """A column of Python objects: all numbers, all text, all dates, …; anything else is refused."""
    filled = [(row, value) for row, value in enumerate(values) if not is_gap(value)]
    if not filled:
        return RawColumn(name, "number", np.full(len(values), np.nan))
    kinds = [_kind(value) for _, value in filled]
    if None in kinds:
        row, value = filled[kinds.index(None)]
        raise InputError(
            f"The column {name!r} of {what} holds a {type(value).__name__} in row {row}; turn it into numbers, text or "
            "dates, or drop it."
        )
    if len(set(kinds)) > 1:
        other = next(at for at, kind in enumerate(kinds) if kind != kinds[0])
        (row, value), (second_row, second) = filled[0], filled[other]
        raise InputError(
            f"The column {name!r} of {what} mixes {kinds[0]} (row {row}: {value!r}) and {kinds[other]} (row "
            f"{second_row}: {second!r}); make it one of them."
        )
    return _READERS[str(kinds[0])](name, [None if is_gap(value) else value for value in values])


def is_gap(value: Any) -> bool:
    """None, nan, pandas' NA and NaT: what is no value, and does not equal itself."""
    if value is None:
        return True
    try:
        return not bool(value == value)
    except TypeError:  # NA is neither true nor false
        return True
    except ValueError:  # an array is not one thing
        return False


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if isinstance(value, numbers.Real | decimal.Decimal | np.bool_):
        return "numbers"
    if isinstance(value, datetime.date | np.datetime64):
        return "dates"
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return "durations"
    return "times of day" if isinstance(value, datetime.time) else None


def _word(value: Any) -> str:
    """A level as text; a whole number is the same level whatever its type."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return plain_number(float(value))
    return str(value)


def _dates(name: str, values: list[Any]) -> RawColumn:
    dates = [NO_DATE if value is None else as_date(value) for value in values]
    return RawColumn(name, "date", np.array(dates, "datetime64[us]"))


def _times(name: str, values: list[Any]) -> RawColumn:
    seconds = [None if v is None else 3600 * v.hour + 60 * v.minute + v.second + 1e-6 * v.microsecond for v in values]
    return RawColumn(name, "number", np.array(seconds, np.float64))


_READERS: dict[str, Callable[[str, list[Any]], RawColumn]] = {
    "text": text_or_dates,
    "numbers": lambda name, values: RawColumn(
        name, "number", np.array([np.nan if value is None else float(value) for value in values])
    ),
    "dates": _dates,
    "durations": lambda name, values: _seconds(name, np.array(values, "timedelta64[us]")),
    "times of day": _times,
}

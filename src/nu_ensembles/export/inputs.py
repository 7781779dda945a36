"""What goes into an exported ensemble: one array of rows, or one array for each column of a mixed table.

| trained on | inputs |
|---|---|
| numbers, images, embeddings | `rows`, `[N, …]`; float32 (float64 where float32 would blur them), or uint8 for pixels |
| a table of numbers only | `rows`, `[N, columns]`, the columns in use in their order; NaN for a gap |
| a table with text or dates | one `[N, 1]` for each column in use, by its name |

Of a mixed table numbers are float32 or float64 with NaN for gaps. What text and dates are depends on the format, since
StableHLO has no text: see `column_arrays`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.export.source import Exportable
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.encoders import CategoryEncoder, DateEncoder, Encoder, OrderedEncoder

ROWS = "rows"
Format = Literal["onnx", "stablehlo"]
# Above this |mean| / deviation inputs are float64. At 100 float32 takes 6e-6 from a standardised number; whole numbers,
# as years are, it holds exactly, so that JAX, which must be told to keep float64, is asked for it only far beyond that.
BLURRED: dict[Format, float] = {"onnx": 100.0, "stablehlo": 1e4}
NO_DAY = np.int32(np.iinfo(np.int32).min)
_DAY = np.int64(86_400_000_000)  # in microseconds


@dataclasses.dataclass(frozen=True)
class Input:
    """One input of an exported ensemble.

    Attributes:
      kind: "rows", "number", "text" or "date".
      shape: of what it holds for each row.
      levels: the texts that mean something, for a column of text.
    """

    name: str
    kind: Literal["rows", "number", "text", "date"]
    dtype: str
    shape: tuple[int, ...]
    levels: tuple[str, ...] = ()


def used_encoders(ensemble: Exportable) -> list[Encoder]:
    """Those of the columns that were not left out."""
    return [] if ensemble.encoding is None else [each for each in ensemble.encoding.encoders if each.kind is not None]


def is_mixed(ensemble: Exportable) -> bool:
    """Whether it takes a table with columns that are no numbers."""
    return any(each.kind != "number" for each in used_encoders(ensemble))


def inputs_of(ensemble: Exportable, kind: Format) -> list[Input]:
    """The inputs, in their order."""
    encoders = used_encoders(ensemble)
    if not encoders:
        if ensemble.pixels and ensemble.standardisation is None:
            return [Input(ROWS, "rows", "uint8", ensemble.row_shape)]
        return [Input(ROWS, "rows", _dtype(ensemble, kind), ensemble.row_shape)]
    if not is_mixed(ensemble):
        return [Input(ROWS, "rows", _dtype(ensemble, kind), (len(encoders),))]
    taken = [each.name for each in encoders if each.name in ("probabilities", "members", "uncertainty")]
    if taken or any(not each.name for each in encoders):
        raise InputError(
            f"A column cannot be named {taken[0] if taken else ''!r} in an exported model, whose outputs have such "
            "names; rename it and train anew."
        )
    firsts = np.cumsum([0, *(len(each.outputs) for each in encoders)]).tolist()
    return [_column(each, kind, _dtype(ensemble, kind, first)) for each, first in zip(encoders, firsts, strict=False)]


def _column(encoder: Encoder, kind: Format, of_numbers: str) -> Input:
    if isinstance(encoder, CategoryEncoder | OrderedEncoder):
        levels = encoder.order if isinstance(encoder, OrderedEncoder) else (*encoder.kept, *encoder.rare)
        dtype = "str" if kind == "onnx" else "int32"
        return Input(encoder.name, "text", dtype, (1,), levels)
    if isinstance(encoder, DateEncoder):
        return Input(encoder.name, "date", *(("int64", (1,)) if kind == "onnx" else ("int32", (2,))))
    return Input(encoder.name, "number", of_numbers, (1,))


def _dtype(ensemble: Exportable, kind: Format, column: int | None = None) -> str:
    """float32, unless the inputs (or those of one column) lie so far from zero that it would blur their differences."""
    scaling = ensemble.standardisation
    if scaling is None:
        return "float32"
    distance = np.abs(scaling.mean) / scaling.scale
    distance = distance if column is None else distance[column]
    return "float64" if np.max(distance, initial=0.0) > BLURRED[kind] else "float32"


def input_arrays(ensemble: Any, x: Any, kind: Format) -> dict[str, np.ndarray]:
    """Rows as a user has them, as the arrays that an exported ensemble takes."""
    inputs = inputs_of(ensemble, kind)
    if ensemble.encoding is None:
        return {ROWS: np.asarray(x, inputs[0].dtype)}
    table: RawTable = ensemble._rows(x)
    if not is_mixed(ensemble):
        return {ROWS: np.asarray(table).astype(inputs[0].dtype)}
    columns = dict(zip(table.names, table.parts, strict=True))
    return {each.name: column_array(columns[each.name], each, kind) for each in inputs}


def column_array(column: RawColumn, wanted: Input, kind: Format) -> np.ndarray:
    """A column as an input.

    Text is text in ONNX, and "" is a gap; in StableHLO it is the place of a level in the input's `levels`, -1 for a gap
    and their number for any other text. A date is its microseconds since 1970 in ONNX, as `datetime64[us]` counts them;
    in StableHLO its days since 1970 and milliseconds of the day, where days of -2³¹ are a gap.
    """
    if wanted.kind == "number":
        return column.values.astype(wanted.dtype)[:, None]
    if wanted.kind == "text":
        words = column.words()
        if kind == "onnx":
            return np.array(["" if word is None else word for word in words], object)[:, None]
        places = {level: at for at, level in enumerate(wanted.levels)}
        codes = [-1 if word is None else places.get(word, len(places)) for word in words]
        return np.array(codes, np.int32)[:, None]
    since = column.values.astype("datetime64[us]").astype(np.int64)
    if kind == "onnx":
        return since[:, None]
    days, rest = np.divmod(np.where(column.gaps, 0, since), _DAY)
    return np.stack([np.where(column.gaps, NO_DAY, days), rest // 1000], axis=1).astype(np.int32)

"""From an exported ensemble's inputs to network rows, in JAX: encoders of columns, then the standardisation.

Sums of large numbers are in float64, so everything here is traced with 64 bits and ends in float32; none of it needs
that setting where the program runs later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.export.inputs import NO_DAY, ROWS, is_mixed, used_encoders
from nu_ensembles.export.source import Exportable
from nu_ensembles.tables import RawColumn
from nu_ensembles.tables.encoders import CYCLES, CategoryEncoder, DateEncoder, Encoder, NumberEncoder, OrderedEncoder

# From 1970-01-01 to 2001-01-01, from where on the encoders count cycles.
_CYCLES_BEGIN = 11_323
# A year of 365.2425 days fits 400 times into so many whole days.
_FOUR_CENTURIES = 146_097
_MILLISECONDS = 86_400_000


def network_rows(ensemble: Exportable, inputs: Mapping[str, Array]) -> Array:
    """uint8 pixels as they are, or float32 `[N, …]`.

    Args:
      inputs: by their names. Text is the number of a level, or of a row of `level_rows`: see `numbers_of`.
    """
    encoders = used_encoders(ensemble)
    if not encoders:
        x = inputs[ROWS]
        if ensemble.standardisation is None:
            return x
        return _standardised(ensemble, x)
    if is_mixed(ensemble):
        parts = [numbers_of(each, inputs[each.name]) for each in encoders]
    else:
        parts = [numbers_of(each, inputs[ROWS][:, at : at + 1]) for at, each in enumerate(encoders)]
    return _standardised(ensemble, jnp.concatenate(parts, axis=1))


def _standardised(ensemble: Exportable, x: Array) -> Array:
    x = x.astype(jnp.float64)
    scaling = ensemble.standardisation
    if scaling is not None:
        x = (x - jnp.asarray(scaling.mean)) / jnp.asarray(scaling.scale)
    return x.astype(jnp.float32)


def numbers_of(encoder: Encoder, values: Array) -> Array:
    """What a column becomes, float64 `[N, outputs]`.

    Args:
      values: numbers `[N, 1]`; places of ordered levels, NaN for others, `[N, 1]`; for a category whole numbers of rows
        of `level_rows`, `[N, 1]`; for a date days since 1970 and milliseconds, `[N, 2]`.
    """
    if isinstance(encoder, CategoryEncoder):
        rows = level_rows(encoder)
        indicators = (values == jnp.arange(len(rows), dtype=values.dtype)).astype(jnp.float32)
        return (indicators @ jnp.asarray(rows, jnp.float32)).astype(jnp.float64)
    if isinstance(encoder, DateEncoder):
        return _date(encoder, values[:, :1], values[:, 1:])
    assert isinstance(encoder, NumberEncoder)
    values = values.astype(jnp.float64)
    gaps = jnp.isnan(values)
    filled = jnp.where(gaps, encoder.fill, values)
    return jnp.concatenate([filled, gaps.astype(jnp.float64)], axis=1) if encoder.n_gaps else filled


def level_rows(encoder: CategoryEncoder) -> np.ndarray:
    """The indicators of each kept level, of a rare one, of a gap and of what is unknown: `[kept + 3, outputs]`."""
    # Asked of the encoder itself: one row of each sort, written as a column of text.
    some_rare = next((level for level in encoder.rare if level not in encoder.single), None)
    shown = [*encoder.kept, *([some_rare] if some_rare is not None else [])]
    unknown = next(f"unknown{'?' * n}" for n in range(len(shown) + 2) if f"unknown{'?' * n}" not in shown)
    codes = [*range(len(encoder.kept)), len(encoder.kept) if some_rare is not None else len(shown), -1, len(shown)]
    return encoder(RawColumn(encoder.name, "category", np.array(codes, np.int32), (*shown, unknown)))


def row_of_level(encoder: CategoryEncoder) -> dict[str, int]:
    """Which of `level_rows` each text means; all others mean the last, and a gap the one before."""
    kept = {level: at for at, level in enumerate(encoder.kept)}
    rare = dict.fromkeys(encoder.rare, len(kept))
    return {**kept, **rare, **dict.fromkeys(encoder.single, len(kept) + 2)}


def coded(encoder: Encoder, values: Array) -> Array:
    """A StableHLO input as `numbers_of` takes it: codes of text become numbers of rows, or places in the order."""
    if isinstance(encoder, CategoryEncoder):
        row_of = row_of_level(encoder)
        n_levels = len(encoder.kept) + len(encoder.rare)
        rows = [*(row_of[level] for level in (*encoder.kept, *encoder.rare)), len(encoder.kept) + 2]
        found = jnp.asarray(np.array(rows, np.int32))[jnp.clip(values, 0, n_levels)]
        return jnp.where(values < 0, len(encoder.kept) + 1, jnp.where(values > n_levels, rows[-1], found))
    if isinstance(encoder, OrderedEncoder):
        known = (values >= 0) & (values < len(encoder.order))
        return jnp.where(known, values.astype(jnp.float32), jnp.nan)
    return values


def days_and_milliseconds(microseconds: Array) -> Array:
    """int64 `[N, 1]`, as `datetime64[us]` counts, to `[N, 2]`; its gap, the least of all numbers, becomes `NO_DAY`."""
    gap = microseconds == np.iinfo(np.int64).min
    since = jnp.where(gap, 0, microseconds)
    days = jnp.floor_divide(since, 1000 * _MILLISECONDS)
    rest = (since - days * (1000 * _MILLISECONDS)).astype(jnp.float64) / 1000.0
    return jnp.concatenate([jnp.where(gap, NO_DAY, days).astype(jnp.float64), rest], axis=1)


def _date(encoder: DateEncoder, days: Array, milliseconds: Array) -> Array:
    gaps = days == NO_DAY
    days = jnp.where(gaps, 0, days).astype(jnp.int64)
    part = jnp.where(gaps, 0.0, milliseconds.astype(jnp.float64) / _MILLISECONDS)
    first = int(np.datetime64(encoder.first).astype("datetime64[D]").astype(np.int64))
    made = [jnp.where(gaps, encoder.fill, (days - first) + part)]
    since = days - _CYCLES_BEGIN
    for cycle in encoder.cycles:
        size = CYCLES[cycle][1]
        turn = {
            "day": lambda: part,
            "week": lambda: (jnp.mod(since, 7) + part) / 7.0,
            "year": lambda: jnp.mod((jnp.mod(since, _FOUR_CENTURIES) + part) / CYCLES["year"][0], 1.0),
        }[cycle]()
        # The cosine as a sine a quarter further on: not every runtime has it in float64.
        for ahead in (0.0, 0.25):
            made.append(jnp.where(gaps, 0.0, size * jnp.sin(2 * math.pi * (turn + ahead))))
    if encoder.n_gaps:
        made.append(gaps.astype(jnp.float64))
    return jnp.concatenate([each.astype(jnp.float64) for each in made], axis=1)


def traced_rows(ensemble: Any, inputs: Mapping[str, Array]) -> Array:
    """`network_rows` of StableHLO inputs."""
    by_name = {each.name: each for each in used_encoders(ensemble)} if is_mixed(ensemble) else {}
    given = {name: coded(by_name[name], value) if name in by_name else value for name, value in inputs.items()}
    return network_rows(ensemble, given)

"""Rows to try an exported ensemble on: like those that it was trained on, as far as it knows them, and odd ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from nu_ensembles.export.inputs import used_encoders
from nu_ensembles.export.source import Exportable
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.column import NO_DATE
from nu_ensembles.tables.encoders import CategoryEncoder, DateEncoder, OrderedEncoder

N_ROWS = 64


def sample_rows(ensemble: Exportable, n_rows: int = N_ROWS, seed: int = 0) -> Any:
    """Rows as a user has them: drawn from the scaling that was fitted, with gaps and unknown levels in tables."""
    rng = np.random.default_rng(seed)
    shape, scaling = ensemble.row_shape, ensemble.standardisation
    if ensemble.encoding is None:
        if ensemble.pixels:
            return rng.integers(0, 256, (n_rows, *shape), np.uint8)
        drawn = rng.normal(size=(n_rows, *shape))
        return (drawn if scaling is None else scaling.mean + scaling.scale * drawn).astype(np.float32)
    columns, at = [], 0
    for encoder in ensemble.encoding.encoders:
        if encoder.kind is None:
            columns.append(RawColumn(encoder.name, "number", np.zeros(n_rows)))
            continue
        centre, spread = (0.0, 1.0) if scaling is None else (float(scaling.mean[at]), float(scaling.scale[at]))
        columns.append(_column(encoder, centre, spread, n_rows, rng))
        at += len(encoder.outputs)
    return RawTable(tuple(columns), ensemble.encoding.named)


def _column(encoder: Any, centre: float, spread: float, n_rows: int, rng: np.random.Generator) -> RawColumn:
    # A gap where a column had none in training is worth a warning to a user, so such columns get none.
    gaps = rng.random(n_rows) < (0.1 if encoder.n_gaps else 0.0)
    if isinstance(encoder, CategoryEncoder | OrderedEncoder):
        known = encoder.order if isinstance(encoder, OrderedEncoder) else (*encoder.kept, *encoder.rare)
        unseen = isinstance(encoder, CategoryEncoder)
        levels = (*known, *(["a level that was never seen"] if unseen else []))
        codes = np.where(gaps, -1, rng.integers(0, len(levels), n_rows))
        return RawColumn(encoder.name, "ordered" if not unseen else "category", codes.astype(np.int32), levels)
    values = centre + spread * rng.normal(size=n_rows)
    if isinstance(encoder, DateEncoder):
        milliseconds = np.round(values * 86_400_000).astype(np.int64).astype("timedelta64[ms]")
        dates = np.datetime64(encoder.first).astype("datetime64[us]") + milliseconds
        return RawColumn(encoder.name, "date", np.where(gaps, NO_DATE, dates))
    # As a program with float32 inputs will get them.
    return RawColumn(encoder.name, "number", np.where(gaps, np.nan, values.astype(np.float32)))


def used_names(ensemble: Exportable) -> list[str]:
    return [each.name for each in used_encoders(ensemble)]

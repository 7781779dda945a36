"""Rows unlike those of the training, as far as a model remembers them: numbers far from their mean, unknown words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nu_ensembles.problem import Standardisation, check_rows
from nu_ensembles.tables import RawTable, SparseRows

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

# In standard deviations of the training rows; tables have heavy tails, and four are no rarity.
FAR = 6.0
# A word that the training rows had not counts as much as a number so far from its mean.
UNKNOWN = 10.0
_WORD = " is unknown"
NAMED = 3


class Strangers(NamedTuple):
    """Rows that are unlike the training rows.

    Attributes:
      why: row number -> what is strange in it, the strangest row first; of the first ones only.
      n: how many rows are strange.
    """

    why: dict[int, str]
    n: int


def strangers(ensemble: Ensemble, x: Any, most: int = 100) -> Strangers | None:
    """The strange rows of a table; None where the model remembers nothing to compare them with (images, say).

    Args:
      x: rows as `predict_proba` takes them.
      most: rows to give reasons for.
    """
    scaling = ensemble.standardisation
    if scaling is None or len(ensemble.row_shape) != 1:
        return None
    rows, encoding = ensemble._rows(x), ensemble.encoding
    if isinstance(rows, SparseRows):
        return _of_sparse(ensemble, rows, scaling, most)
    if encoding is None:
        numbers, names = np.asarray(check_rows(rows, "X"), np.float64), None
        scaled = np.ones(numbers.shape[1], bool)
    else:
        numbers, names = encoding.numbers(rows, "X"), encoding.outputs
        scaled = ~encoding.as_they_are
    away = np.where(scaled, np.abs(numbers - scaling.mean) / scaling.scale, 0.0)
    away = np.where(away > FAR, away, 0.0)
    if names is not None:
        unknown = np.array([name.endswith(_WORD) for name in names]) & ~scaled
        away[:, unknown] = UNKNOWN * (numbers[:, unknown] > 0)
    score = away.max(axis=1, initial=0.0)
    order = np.argsort(-score, kind="stable")[: min(most, int((score > 0).sum()))]
    table = rows if isinstance(rows, RawTable) else None
    return Strangers(
        {int(row): _reasons(away[row], numbers[row], names, table, int(row)) for row in order}, int((score > 0).sum())
    )


def _of_sparse(ensemble: Ensemble, rows: SparseRows, scaling: Standardisation, most: int) -> Strangers:
    """Of rows that are not made dense: those with the largest values, each looked at on its own."""
    away = np.abs(rows.matrix).multiply(1 / scaling.scale).tocsr().max(axis=1).toarray().ravel()
    order = np.argsort(-away, kind="stable")[: min(most, int((away > FAR).sum()))]
    found = {}
    for row in order.tolist():
        of_row = strangers(ensemble, rows[[row]].dense(), 1)
        found |= {row: of_row.why[0]} if of_row is not None and of_row.n else {}
    return Strangers(found, int((away > FAR).sum()))


def _reasons(
    away: np.ndarray, numbers: np.ndarray, names: tuple[str, ...] | None, table: RawTable | None, row: int
) -> str:
    told = []
    for column in np.argsort(-away, kind="stable")[: int((away > 0).sum())][:NAMED]:
        name = f"column {column + 1}" if names is None else names[column]
        if names is not None and name.endswith(_WORD):
            name = name.removesuffix(_WORD)
            told.append(f"{name} is {_word(table, name, row)}, which the training rows had not, or once")
        else:
            told.append(f"{name} is {numbers[column]:.6g}, {away[column]:.0f} standard deviations from the mean")
    return "; ".join(told)


def _word(table: RawTable | None, name: str, row: int) -> str:
    if table is None or name not in table.names:
        return "unknown"
    word = table.only([name])[[row]].parts[0].words()[0]
    return "missing" if word is None else repr(word)

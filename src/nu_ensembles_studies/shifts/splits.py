"""Ways to part one table into a source and a deployment: by component, direction, cluster, place, column, class.

None of them but the priors looks at a label. The hard edge of all others is harsher than most of what happens, and
leaves no row of the deployment among the source's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles_studies.shifts.drawing import Shifted, TwoPlaces
from nu_ensembles_studies.shifts.tables import WholeTable

N_CLUSTERS = 3
# Components beyond these say little of where a row lies.
MOST_COMPONENTS = 10
# Around a row.
NEIGHBOURHOOD = 1 / 3
# A side that has less than this share of the rows is no place of its own.
SMALLEST_SIDE = 0.15
# Columns with more levels than this are names, not places.
MOST_LEVELS = 12
# The most frequent class of a deployment with other priors is so many times as frequent as its rarest.
PRIOR_RATIO = 8.0

Splits = Iterator[tuple[np.ndarray, np.ndarray]]


def by_component(number: int) -> Callable[[WholeTable, np.random.Generator], Splits]:
    """Rows beyond the median of a principal component (the first is 1) are the deployment."""

    def split(table: WholeTable, rng: np.random.Generator) -> Splits:
        scores = _components(table.x, number)[:, -1]
        yield np.arange(len(scores)), scores > np.median(scores)

    return split


def by_cluster(table: WholeTable, rng: np.random.Generator) -> Splits:
    """One cluster of three is the deployment; the generator says in which order they are tried."""
    from sklearn.cluster import KMeans

    points = _components(table.x, min(MOST_COMPONENTS, table.x.shape[1]))
    options: Any = {"n_init": 4, "random_state": 0}  # scikit-learn's annotations know no number for n_init
    cluster = KMeans(N_CLUSTERS, **options).fit_predict(points)
    for chosen in rng.permutation(N_CLUSTERS):
        yield np.arange(len(cluster)), cluster == chosen


def by_column(table: WholeTable, rng: np.random.Generator) -> Splits:
    """Rows above the median of a column of numbers, or those of one of a column's levels, are the deployment."""
    for at in rng.permutation(len(table.raw.parts)):
        part = table.raw.parts[at]
        if part.kind in ("number", "date"):
            values = part.values.astype(np.float64)
            deployed = values > np.nanmedian(values)
        else:
            levels = np.flatnonzero(np.bincount(part.values[part.values >= 0]))
            if not 2 <= len(levels) <= MOST_LEVELS:
                continue
            deployed = part.values == rng.choice(levels)
        if SMALLEST_SIDE <= deployed.mean() <= 1 - SMALLEST_SIDE:
            yield np.flatnonzero(~part.gaps), deployed[~part.gaps]


def by_direction(table: WholeTable, rng: np.random.Generator) -> Splits:
    """Rows beyond the median along a direction that is drawn among the components, each of which counts alike."""
    points = _components(table.x, min(MOST_COMPONENTS, table.x.shape[1]))
    scores = (points / np.maximum(points.std(axis=0), 1e-6)) @ rng.normal(size=points.shape[1])
    yield np.arange(len(scores)), scores > np.median(scores)


def by_neighbourhood(table: WholeTable, rng: np.random.Generator) -> Splits:
    """The third of the rows that is nearest to one of them is the deployment; it is drawn, until both sides hold."""
    points = _components(table.x, min(MOST_COMPONENTS, table.x.shape[1]))
    for centre in rng.permutation(len(points)):
        distance = np.square(points - points[centre]).sum(axis=1)
        yield np.arange(len(points)), distance <= np.quantile(distance, NEIGHBOURHOOD)


def by_chance(table: WholeTable, rng: np.random.Generator) -> Splits:
    """No shift at all: half of the rows."""
    yield np.arange(len(table.y)), rng.random(len(table.y)) < 0.5


def by_class(table: WholeTable, rng: np.random.Generator) -> Splits:
    """Half of the rows, of which each class keeps another share: priors differ by up to `PRIOR_RATIO`, nothing else."""
    _, codes = np.unique(table.y, return_inverse=True)
    n_classes = int(codes.max()) + 1
    kept_share = PRIOR_RATIO ** -(rng.permutation(n_classes) / (n_classes - 1))
    deployed = rng.random(len(codes)) < 0.5
    kept = ~deployed | (rng.random(len(codes)) < kept_share[codes])
    yield np.flatnonzero(kept), deployed[kept]


SPLITS: dict[str, Callable[[WholeTable, np.random.Generator], Splits]] = {
    "component-1": by_component(1),
    "component-2": by_component(2),
    "cluster": by_cluster,
    "column": by_column,
    "direction": by_direction,
    "neighbourhood": by_neighbourhood,
    "priors": by_class,
    "same": by_chance,
}


def split_table(table: WholeTable, kind: str, seed: int, n_labelled: int) -> Shifted:
    """The parts of a table under one of `SPLITS`; of several ways to do it, the first that leaves enough rows."""
    rng = np.random.default_rng([seed, 31])
    refusal = InputError(f"No way to split this table by {kind} leaves rows on both sides.")
    for rows, deployed in SPLITS[kind](table, rng):
        try:
            return TwoPlaces(table.x[rows], table.y[rows], deployed).draw(rng, n_labelled)
        except InputError as error:
            refusal = error
    raise refusal


def _components(x: np.ndarray, n: int) -> np.ndarray:
    """Scores `[N, n]` on the principal components of standardised columns, each with its largest loading positive."""
    x = x[:, x.std(axis=0) > 0].astype(np.float64)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    # Of the columns' correlations, because there are fewer columns than rows; ascending.
    loadings = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :n]
    largest = np.abs(loadings).argmax(axis=0)
    return x @ (loadings * np.sign(loadings[largest, np.arange(loadings.shape[1])]))

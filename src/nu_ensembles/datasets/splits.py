"""Disjoint parts of a data set: drawn from a seed, or the rows that the paper took.

Parts are drawn in the order in which they are named, so adding a part or changing a later one leaves the
earlier ones as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_array, check_whole, checked, shown
from nu_ensembles.errors import InputError

# Their numbers have to fit into memory, some times over.
MOST_ROWS = 1 << 28


@checked
def split(
    n_rows: int, sizes: Mapping[str, int | None], seed: int, stratify: ArrayLike | None = None
) -> dict[str, np.ndarray]:
    """Draws disjoint sets of row numbers.

        split(1797, {"train": 50, "unlabeled": 800, "test": None}, seed=0, stratify=y)

    Args:
      n_rows: number of rows to draw from.
      sizes: rows in each part; one part may be `None` and takes all that the others leave.
      seed: the same seed gives the same parts.
      stratify: labels `[n_rows]`; each part then holds every class in proportion to the rows that were left
        when it was drawn, up to rounding.

    Returns:
      For each name the row numbers, int64 `[size]`, in random order.
    """
    counts = _counts(n_rows, sizes)
    rng = np.random.default_rng(check_whole(seed, "seed", least=0))
    groups = [rng.permutation(group) for group in _groups(n_rows, stratify)]
    parts = {}
    for name, count in counts.items():
        shares = _shares(count, np.array([len(group) for group in groups]), rng)
        drawn = [group[:share] for group, share in zip(groups, shares, strict=True)]
        groups = [group[share:] for group, share in zip(groups, shares, strict=True)]
        parts[name] = rng.permutation(np.concatenate(drawn))
    return parts


@checked
def published_split(
    n_rows: int, n_train: int, *, n_validation: int = 5000, n_unlabeled: int = 5000
) -> dict[str, np.ndarray]:
    """The paper's parts of a training set: the first rows validate, the next train, the next are unlabelled.

        rows = published_split(len(train_images), n_train=1000)

    Args:
      n_rows: number of rows in the training set.
      n_train: labelled training rows.
      n_validation: validation rows.
      n_unlabeled: unlabelled rows.

    Returns:
      For `validation`, `train` and `unlabeled` the row numbers, int64 `[size]`, in order.
    """
    counts = _counts(n_rows, {"validation": n_validation, "train": n_train, "unlabeled": n_unlabeled})
    ends = np.cumsum(list(counts.values()))
    return {
        name: np.arange(end - size, end, dtype=np.int64) for (name, size), end in zip(counts.items(), ends, strict=True)
    }


def _counts(n_rows: int, sizes: Mapping[str, int | None]) -> dict[str, int]:
    n_rows = check_whole(n_rows, "n_rows", least=0, most=MOST_ROWS)
    if not isinstance(sizes, Mapping):
        raise InputError(
            f"sizes must name the parts and their numbers of rows, as in {{'train': 50}}, not {shown(sizes)}."
        )
    for name, size in sizes.items():
        if size is not None and (not isinstance(size, int | np.integer) or size < 0):
            raise InputError(f"The size of part {name!r} must be a whole number of rows, not {shown(size)}.")
    rest = [name for name, size in sizes.items() if size is None]
    if len(rest) > 1:
        raise InputError(f"Only one part can take the rest of the rows, not {' and '.join(map(repr, rest))}.")
    needed = sum(int(size) for size in sizes.values() if size is not None)
    if needed > n_rows:
        listed = " + ".join(f"{size} {name}" for name, size in sizes.items() if size is not None)
        raise InputError(f"The parts need {needed} rows ({listed}) but the data has {n_rows}: ask for smaller parts.")
    return {name: n_rows - needed if size is None else int(size) for name, size in sizes.items()}


def _groups(n_rows: int, stratify: ArrayLike | None) -> list[np.ndarray]:
    """Row numbers of each class, or of all rows."""
    if stratify is None:
        return [np.arange(n_rows)]
    labels = check_array(stratify, "stratify")
    if labels.shape != (n_rows,):
        raise InputError(f"stratify must hold one label for each of the {n_rows} rows, not {labels.shape}.")
    classes, codes = np.unique(labels, return_inverse=True)
    return [np.flatnonzero(codes == code) for code in range(len(classes))] or [np.arange(0)]


def _shares(count: int, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Splits `count` in proportion to `left`, the largest remainders rounded up, ties at random."""
    total = max(int(left.sum()), 1)
    shares, remainders = count * left // total, count * left % total
    # A class with a remainder has more left than its share, so rounding up never asks for too much.
    order = rng.permutation(len(left))
    by_remainder = order[np.argsort(-remainders[order], kind="stable")]
    shares[by_remainder[: count - shares.sum()]] += 1
    return shares

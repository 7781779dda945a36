"""From rows of a source and rows of a deployment to the parts that a training and its scores need.

Classes are those of which the source has enough rows to learn and to hold out: where a deployment holds others, its
rows of these are left out on both sides, so that every row can be predicted right.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles.errors import InputError

# Of each part at most so many rows: more hardly narrow a score, and all of them are predicted at every stop.
MOST_UNLABELED, MOST_TEST = 1000, 1000
# A class with fewer source rows is no class of the task: two train, and some are left to test on.
FEWEST_OF_A_CLASS = 4
# A part that is smaller scores nothing.
FEWEST_ROWS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Shifted:
    """Labels from a source, unlabelled and test rows from a deployment.

    Attributes:
      x, y: labelled source rows, float32 or uint8 `[n, …]` and class numbers int `[n]`.
      x_source_test, y_source_test: other source rows.
      x_unlabeled: deployment rows.
      x_test, y_test: other deployment rows.
      y_unlabeled: true classes of the unlabelled rows, which no method may see but an oracle.
      classes: names of the classes, by number.
    """

    x: np.ndarray
    y: np.ndarray
    x_source_test: np.ndarray
    y_source_test: np.ndarray
    x_unlabeled: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    y_unlabeled: np.ndarray
    classes: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        return len(self.classes)


@dataclasses.dataclass(frozen=True, eq=False)
class TwoPlaces:
    """Rows and labels, and where each row lies.

    Attributes:
      x: `[N, …]`; y: labels of any kind `[N]`.
      deployed: bool `[N]`, whether a row lies in the deployment rather than in the source.
    """

    x: np.ndarray
    y: np.ndarray
    deployed: np.ndarray

    def draw(self, rng: np.random.Generator, n_labelled: int) -> Shifted:
        """Parts at random; at least two labelled rows of each class, and no more than half of the source.

        Raises:
          InputError: too few rows, or too few classes.
        """
        names, codes = self._classes()
        source, deployment = (rng.permutation(np.flatnonzero(where & (codes >= 0))) for where in self._both)
        if len(source) < 2 * FEWEST_ROWS or len(deployment) < 2 * FEWEST_ROWS or len(names) < 2:
            raise InputError(
                f"The source has {len(source)} rows and the deployment {len(deployment)}, of {len(names)} classes: "
                "give more, or split them in another way."
            )
        labelled = at_least_two_each(codes[source], min(n_labelled, len(source) // 2))
        train, source_test = source[labelled], source[~labelled][:MOST_TEST]
        n_unlabeled = min(len(deployment) // 2, MOST_UNLABELED)
        unlabeled, test = deployment[:n_unlabeled], deployment[n_unlabeled : n_unlabeled + MOST_TEST]
        of = self.x.__getitem__
        return Shifted(
            x=of(train),
            y=codes[train],
            x_source_test=of(source_test),
            y_source_test=codes[source_test],
            x_unlabeled=of(unlabeled),
            x_test=of(test),
            y_test=codes[test],
            y_unlabeled=codes[unlabeled],
            classes=names,
        )

    @property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        return ~self.deployed, self.deployed

    def _classes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Names of the classes, and the number of each row's; -1 where the source knows the class too little."""
        found, codes = np.unique(self.y, return_inverse=True)
        counts = np.bincount(codes[~self.deployed], minlength=len(found))
        kept = np.flatnonzero(counts >= FEWEST_OF_A_CLASS)
        number = np.full(len(found), -1)
        number[kept] = np.arange(len(kept))
        return tuple(str(found[each]) for each in kept), number[codes]


def at_least_two_each(codes: np.ndarray, n_labelled: int) -> np.ndarray:
    """Which of the rows are labelled, bool: the first two of each class, then the first of the others."""
    labelled = np.zeros(len(codes), bool)
    for code in np.unique(codes):
        labelled[np.flatnonzero(codes == code)[:2]] = True
    others = np.flatnonzero(~labelled)
    labelled[others[: max(0, n_labelled - labelled.sum())]] = True
    return labelled

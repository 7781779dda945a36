"""A forest's decision trees as plain arrays, which can be stored without pickle, and the probabilities they give.

Row x goes from node to node, to `left` where x[feature] <= threshold and to `right` elsewhere, until it stays: a leaf
leads to itself. The forest's probability is the mean over trees of what their leaves hold (Breiman, *Random forests*,
2001).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nu_ensembles.errors import InputError

# Rows times trees that are walked at once: what is gathered for them stays in the processor's cache.
AT_ONCE = 200_000


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    """The nodes of all trees, one tree after the other.

    Attributes:
      roots: `[T]`, the first node of each tree.
      left, right: `[nodes]`, where a row goes on; a leaf's are its own number.
      feature, threshold: `[nodes]`, of the comparison; those of a leaf decide nothing.
      leaf: `[nodes]`, the row of `values` of a leaf, 0 elsewhere.
      values: `[leaves, C]`, probabilities.
    """

    roots: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    leaf: NDArray[np.int32]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, estimators: Sequence[Any]) -> Trees:
        """From scikit-learn's fitted decision trees."""
        trees = [estimator.tree_ for estimator in estimators]
        roots = np.cumsum([0, *(tree.node_count for tree in trees)])
        is_leaf = np.concatenate([tree.children_left for tree in trees]) < 0
        own = np.arange(len(is_leaf))

        def children(name: str) -> NDArray[np.int32]:
            moved = [getattr(tree, name) + root for tree, root in zip(trees, roots[:-1], strict=True)]
            return np.where(is_leaf, own, np.concatenate(moved)).astype(np.int32)

        def of_nodes(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(tree, name) for tree in trees])

        return cls(
            roots[:-1].astype(np.int32),
            children("children_left"),
            children("children_right"),
            np.where(is_leaf, 0, of_nodes("feature")).astype(np.int32),
            np.where(is_leaf, 0.0, of_nodes("threshold")),
            np.where(is_leaf, np.cumsum(is_leaf) - 1, 0).astype(np.int32),
            of_nodes("value")[is_leaf, 0],
        )

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """The mean over trees `[n, C]`."""
        X = X.astype(np.float32)  # as scikit-learn compares
        n_rows = max(1, AT_ONCE // len(self.roots))
        blocks = [X[start : start + n_rows] for start in range(0, len(X), n_rows)]
        return np.concatenate([self._of_block(block) for block in blocks])

    def _of_block(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        node = np.tile(self.roots, (len(X), 1))
        row = np.arange(len(X))[:, None]
        while True:
            goes_left = X[row, self.feature[node]] <= self.threshold[node]
            following = np.where(goes_left, self.left[node], self.right[node])
            if np.array_equal(following, node):
                break
            node = following
        total = np.zeros((len(X), self.values.shape[1]))
        # One tree after the other, as scikit-learn adds them up: the same bits.
        for leaves in self.leaf[node].T:
            total += self.values[leaves]
        return total / len(self.roots)

    def state(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> Trees:
        """What `state` told, after a look at whether every row would arrive at a leaf."""
        integers = ("roots", "left", "right", "feature", "leaf")
        try:
            arrays: dict[str, Any] = {name: np.asarray(state[name], np.int32) for name in integers}
            arrays |= {name: np.asarray(state[name], np.float64) for name in ("threshold", "values")}
            trees = cls(**arrays)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _damaged() from None
        if not trees._is_whole(n_features):
            raise _damaged()
        return trees

    def _is_whole(self, n_features: int) -> bool:
        own = np.arange(len(self.left))
        nodes = (self.left, self.right, self.feature, self.threshold, self.leaf)
        if any(array.shape != own.shape for array in nodes) or self.roots.ndim != 1 or self.values.ndim != 2:
            return False
        if not len(self.roots) or not len(own) or not self.values.size:
            return False

        def within(numbers: NDArray[np.int32], limit: int) -> bool:
            return bool((numbers >= 0).all() and (numbers < limit).all())

        limits = ((self.roots, len(own)), (self.feature, n_features), (self.leaf, len(self.values)))
        known = all(within(numbers, limit) for numbers, limit in limits)
        # A child has a higher number than its parent, so no walk is endless; a leaf leads to itself on both sides.
        ends = (self.left == own) & (self.right == own)
        onward = (np.minimum(self.left, self.right) > own) & (np.maximum(self.left, self.right) < len(own))
        finite = np.isfinite(self.threshold).all() and np.isfinite(self.values).all() and (self.values >= 0).all()
        return known and bool((ends | onward).all() and finite)


def _damaged() -> InputError:
    return InputError("The arrays of the forest do not fit together: give what state() returned, or save it again.")

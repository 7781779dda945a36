"""A companion: a forest, and the weight that it has in the geometric pool with the networks' mean probability.

p ∝ networks^(1 - weight) · forest^weight
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nu_ensembles.calibration import pool
from nu_ensembles.companion.forest import Forest
from nu_ensembles.companion.trees import Trees
from nu_ensembles.errors import InputError

KIND = "forest"


@dataclasses.dataclass(frozen=True, eq=False)
class Companion:
    """What is pooled with the networks.

    Attributes:
      forest: takes the rows as the networks get them, encoded and scaled.
      weight: of the forest, from 0 to 1; the networks have the rest.
    """

    forest: Forest
    weight: float

    def pooled(self, networks: NDArray[Any], x: NDArray[Any]) -> NDArray[np.float64]:
        """The pool of the networks' probabilities and the forest's.

        Args:
          networks: `[N, C]`, their mean.
          x: the rows `[N, F]`, as the networks get them.
        """
        return pool([networks, self.forest.probabilities(x)], [1.0 - self.weight, self.weight])

    def numbers(self) -> dict[str, Any]:
        """What a manifest holds of it."""
        return {"kind": KIND, "weight": self.weight, "temperature": self.forest.temperature}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What goes into a file of arrays."""
        return self.forest.trees.state()

    @classmethod
    def restored(
        cls, weight: float, temperature: float, arrays: Mapping[str, Any], n_features: int, n_classes: int
    ) -> Companion:
        """The companion again.

        Args:
          arrays: what `arrays` gave.
          n_features, n_classes: of the networks that it goes with.

        Raises:
          InputError: it was altered, or belongs to other networks.
        """
        wanted = {field.name for field in dataclasses.fields(Trees)}
        if set(arrays) != wanted:
            raise InputError(f"A forest has the arrays {', '.join(sorted(wanted))}, not {', '.join(sorted(arrays))}.")
        forest = Forest.from_arrays(arrays, temperature, n_features)
        if forest.n_classes != n_classes:
            raise InputError(f"The forest tells {forest.n_classes} classes apart, and the networks {n_classes}.")
        return cls(forest, weight)

"""A single network, whatever the number of members: what every ensemble should be compared with.

  mean CE over Z  (+ weight decay)

It is the first member of the standard ensemble of the same seed.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.trainer import Members, Trainer


@dataclasses.dataclass(frozen=True)
class Single(Procedure):
    """One network. Costs 1/K of a standard ensemble."""

    name: ClassVar[str] = "single"

    def carry_out(self, trainer: Trainer) -> Members:
        return Members(trainer.train("network", self.base, [0]))

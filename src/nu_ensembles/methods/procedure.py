"""Ways to train that are more than one loss: several trainings, and something done with their networks.

A procedure is a frozen dataclass of hyper-parameters like any method; in place of a loss it has `carry_out(trainer)`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from nu_ensembles.methods.protocol import Carried, Method
from nu_ensembles.methods.standard import Standard
from nu_ensembles.methods.trainer import Members, Trainer


class Procedure(Carried):
    """A way to train that is more than one loss; subclasses are frozen dataclasses with a `carry_out`.

    Attributes:
      has_length: whether the number of steps plays a part, so that early stopping can choose it.
    """

    name: ClassVar[str]
    shape: ClassVar[str] = "procedure"
    is_one_training: ClassVar[bool] = False
    is_independent: ClassVar[bool] = False
    has_length: ClassVar[bool] = True

    @property
    def uses_unlabeled(self) -> bool:
        """Whether it takes unlabelled rows."""
        return self.base.uses_unlabeled

    @property
    def base(self) -> Method:
        """What each network minimises, at least at first."""
        return Standard()

    def effective(self) -> Self:
        return self

    def carry_out(self, trainer: Trainer) -> Members:
        """Trains whatever it takes and returns the members.

        Args:
          trainer: the user's rows, and what trains networks on them.
        """
        raise NotImplementedError


AnyMethod = Method | Procedure

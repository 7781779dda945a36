"""MC dropout: one network trained with dropout, whose members are K fixed dropout masks.

  p(y | x) = 1/K sum_k softmax f(x; w * m_k)

Gal and Ghahramani, *Dropout as a Bayesian Approximation*, 2016. Each mask is drawn once and is the same for every
row (a "consistent" mask), so a member is a function: its predictions do not depend on how rows are batched.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import numpy as np

from nu_ensembles.checks import check_positive
from nu_ensembles.errors import InputError
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.trainer import Members, Trainer
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import draws_at_random, dropout_rate, has_mutable_state, with_dropout

# For a network that has a dropout option and was made without dropout. With ten masks of 0.1 an MLP on the digits is
# less accurate than one network, with 0.05 it is not (`benchmarks/mc_dropout.py`).
USUAL_RATE = 0.05


@dataclasses.dataclass(frozen=True)
class McDropout(Procedure):
    """One network and K dropout masks. Training costs 1/K of a standard ensemble, prediction as much.

    Attributes:
      dropout: share of units dropped; None takes the network's own, or 0.05 where that is 0.
    """

    dropout: float | None = None

    name: ClassVar[str] = "mc_dropout"

    def __post_init__(self) -> None:
        if self.dropout is not None and check_positive(self.dropout, "dropout", zero_allowed=True, below=1) == 0:
            raise InputError("dropout must be above 0: without dropout all members would be the same.")

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if self.dropout is not None:
            given = with_dropout(given, self.dropout)
        elif given.spec is not None:
            given = with_dropout(given, dropout_rate(given) or USUAL_RATE)
        if not draws_at_random(given, row_shape):
            raise InputError("MC dropout needs a network with dropout, and this one draws nothing at random: add some.")
        if has_mutable_state(given, row_shape):
            raise InputError(
                "MC dropout predicts row by row in training mode, which a network with mutable state (batch "
                "normalisation) cannot do; use one without."
            )
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        # A key per member: member k keeps its mask whatever the number of members.
        keys = jax.vmap(lambda k: jax.random.fold_in(trainer.key, k))(np.arange(trainer.n_members))
        network = trainer.train("network", self.base, [0])
        return Members(network, mask_keys=np.asarray(jax.random.key_data(keys)))

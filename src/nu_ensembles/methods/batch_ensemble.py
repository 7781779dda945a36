"""BatchEnsemble: K members that share their weights, each times a rank-one matrix of its own.

  W_k = W * (r_k s_k')        r_k over the inputs of a layer, s_k over its outputs; biases are each member's own

Wen, Tran and Ba, *BatchEnsemble: An Alternative Approach to Efficient Ensemble and Lifelong Learning*, 2020. The
entries of r and s start as random signs. A step costs that of one network: its rows are shared out among the members.
After the training every member is a network like the user's. AdamW's decay holds for r and s as for all weights.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import check_name, check_positive
from nu_ensembles.errors import InputError
from nu_ensembles.methods.forward import Forward
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import BaseMethod, Batch, Shape, method
from nu_ensembles.methods.trainer import Members, Networks, Trainer
from nu_ensembles.models import Model, variable_shapes
from nu_ensembles.models.dropout import has_mutable_state
from nu_ensembles.models.rank_one import members_of
from nu_ensembles.models.wrapped import wrapped

Rows = Literal["shared", "all"]


@method()
class RepeatedRows(BaseMethod):
    """The mean loss over the batch, as often as there are members.

    Attributes:
      n_members: K.
    """

    n_members: int

    name: ClassVar[str] = "repeated_rows"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = False

    def loss(self, forward: Forward, batch: Batch) -> Array:
        x, y, weight = (jnp.concatenate([each] * self.n_members) for each in (batch.x, batch.y, batch.weight))
        (logits,) = forward(x)
        return cross_entropy(logits, y, weight)


@dataclasses.dataclass(frozen=True)
class BatchEnsemble(Procedure):
    """K members around one set of weights. Training costs 1/K of a standard ensemble.

    Attributes:
      rows: of a batch that a member sees: "shared" gives each a K-th, as published; "all" costs as much as a standard
        ensemble.
      negative: how probably an entry of r or s starts as -1; with 0 all members start the same.
    """

    rows: Rows = "shared"
    negative: float = 0.5

    name: ClassVar[str] = "batch_ensemble"

    def __post_init__(self) -> None:
        check_name(self.rows, "rows of a batch ensemble", get_args(Rows))
        if check_positive(self.negative, "negative", zero_allowed=True) > 1:
            raise InputError(f"negative is a probability, from 0 to 1, not {self.negative}.")

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if has_mutable_state(given, row_shape):
            raise InputError(
                "Members of a batch ensemble share their weights, which the mutable state of this network (batch "
                "statistics) would not fit; use a network without."
            )
        shapes = jax.tree.leaves(variable_shapes(given, row_shape))
        if given.spec is None and any(len(leaf.shape) > 2 for leaf in shapes):
            raise InputError(
                "A batch ensemble must know which axes of a kernel are inputs and outputs, which it does for matrices "
                "and the built-in networks; use a built-in network, or one of your own of dense layers."
            )
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        network = wrapped(trainer.model, "rank_one", n_members=trainer.n_members, negative=self.negative)
        loss: Any = self.base if self.rows == "shared" else RepeatedRows(trainer.n_members)
        trained = trainer.train("network", loss, [0], network=network)
        one = jax.tree.map(lambda leaf: leaf[0], trained.params)
        size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(one))
        params = jax.tree.map(np.asarray, jax.jit(members_of)(one["params"]))
        return Members(Networks(trainer.model, params, {}), notes={"n_parameters": size})

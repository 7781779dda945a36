"""Packed ensembles: K narrow networks that together are about as large as alpha² / (K gamma) of a standard ensemble.

  units of a hidden layer:  C  ->  alpha C / K  in each member,  in gamma groups that do not meet

Laurent et al., *Packed-Ensembles for Efficient Uncertainty Estimation*, 2023, pack the members into one network of
grouped convolutions; here the engine runs them as one program, so that each can stay a network of its own. Their
members see the same batches; here each draws its own, as everywhere.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Self

import jax

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Trainer
from nu_ensembles.models import Model, build
from nu_ensembles.models.lenet import PUBLISHED_WIDTHS
from nu_ensembles.models.mlp import PUBLISHED_HIDDEN

# Networks whose hidden layers can be made narrower, and what gives their widths.
WIDTHS = {"mlp": "hidden", "mlp_large": "hidden", "lenet": "widths"}
USUAL_WIDTHS: dict[str, tuple[int, ...]] = {"mlp_large": PUBLISHED_HIDDEN, "lenet": PUBLISHED_WIDTHS}


@dataclasses.dataclass(frozen=True)
class PackedEnsemble(Procedure):
    """K narrow networks. The wider their sum, alpha, the more it costs: with alpha = K it is a standard ensemble.

    Attributes:
      alpha: width of all members together, in widths of the network.
      gamma: into how many groups the layers between the first hidden and the last fall; perceptrons only.
      beta: weight of random labels on the unlabelled rows; 0 leaves those out.
    """

    alpha: float = 2.0
    gamma: int = 1
    beta: float = 0.0

    name: ClassVar[str] = "packed"

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")
        check_whole(self.gamma, "gamma")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self:
        return dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        name = None if given.spec is None else given.spec.name
        if name not in WIDTHS:
            known = ", ".join(map(repr, WIDTHS))
            raise InputError(
                f"Packed ensembles make the network's layers narrower, which is known how to do for {known} alone; use "
                "one of these, or method='standard'."
            )
        if self.gamma > 1 and WIDTHS[name] != "hidden":
            raise InputError(f"gamma above 1 makes groups of a perceptron's layers, and this network is {name!r}.")
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        network = packed(trainer.model, trainer.n_members, self.alpha, self.gamma)
        networks = trainer.train("networks", self.base, trainer.members, network=network)
        each = sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(networks.params))
        notes = {"widths": list(widths_of(network)), "n_parameters": each * trainer.n_members}
        return Members(networks, notes=notes)


def packed(model: Model, n_members: int, alpha: float, gamma: int = 1) -> Model:
    """The network of one of so many members; widths are rounded up, to multiples of gamma.

    Args:
      model: one of `WIDTHS`.
      n_members: K.
      alpha: width of all of them together.
      gamma: groups.
    """
    assert model.spec is not None
    widths = tuple(gamma * math.ceil(width * alpha / n_members / gamma - 1e-9) for width in widths_of(model))
    if widths == widths_of(model) and gamma == 1:
        return model
    given: dict[str, Any] = dict(model.spec.options)
    given |= {WIDTHS[model.spec.name]: widths} | ({"groups": gamma} if gamma > 1 else {})
    return build("lenet" if model.spec.name == "lenet" else "mlp", model.spec.n_classes, **given)


def widths_of(model: Model) -> tuple[int, ...]:
    """The widths of the hidden layers of one of `WIDTHS`."""
    assert model.spec is not None
    return dict(model.spec.options).get(WIDTHS[model.spec.name]) or USUAL_WIDTHS[model.spec.name]

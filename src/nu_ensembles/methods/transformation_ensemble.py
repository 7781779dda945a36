"""Transformation ensembles: member k sees transformation k of every row, or is held to a symmetry of its own.

  p(y | x) = 1/K sum_k softmax f_k(t_k(x))

Members that see edges, blurred or turned images cannot lean on the same features: Jain, Tsipras and Madry, *Combining
Diverse Feature Priors*, 2022. Members that are invariant or equivariant to a group (`symmetry.py`) see rows as they
are when they predict: Loh et al., *Multi-Symmetry Ensembles*, 2023. With `eras` the ensemble labels unlabelled rows
for all its members, era by era, as in self-training; with `beta` the other rows carry random labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from nu_ensembles.checks import check_positive, check_whole, shown
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.self_training import pseudo_labels, with_pseudo_labels
from nu_ensembles.methods.symmetry import Equivariant, Invariant
from nu_ensembles.methods.trainer import Members, Networks, Trainer, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.image_maps import GROUPS, MAPS, check_map
from nu_ensembles.models.inspect import require_features
from nu_ensembles.models.wrapped import around, wrapped

SYMMETRIES: dict[str, tuple[type[Invariant | Equivariant], str]] = {
    f"{kind.name}_{group}": (kind, group) for group in GROUPS for kind in (Invariant, Equivariant)
}


@dataclasses.dataclass(frozen=True)
class TransformationEnsemble(Procedure):
    """An ensemble whose members look at images differently. Costs a standard ensemble, or `eras` + 1 of them.

    Attributes:
      transformations: member k has number k modulo their number. "as_is", "edges", "blur", "grey", "flip", "rotate_90",
        "rotate_180" and "rotate_270" are what the member sees; "invariant_rotations", "equivariant_rotations",
        "invariant_flips" and "equivariant_flips" what it is trained to be.
      beta: weight of random labels on the unlabelled rows; 0 leaves those out.
      eras: how often the ensemble labels unlabelled rows and trains anew; 0 for never.
      fraction: share of the unlabelled rows that has a pseudo-label in the last era.
      pseudo_weight: what a pseudo-labelled row counts against a labelled one.
    """

    transformations: tuple[str, ...] = ("as_is", "edges", "blur")
    beta: float = 0.0
    eras: int = 0
    fraction: float = 0.8
    pseudo_weight: float = 1.0

    name: ClassVar[str] = "transformations"
    changes_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        names = self.transformations
        if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(n, str) for n in names):
            raise InputError(f"transformations must be a list of names, as in ('as_is', 'edges'), not {shown(names)}.")
        if not names:
            raise InputError(f"transformations must list at least one, as in ('as_is', 'edges'), not {shown(names)}.")
        object.__setattr__(self, "transformations", tuple(names))
        for each in names:
            if each not in MAPS and each not in SYMMETRIES:
                raise unknown_name("transformation", each, (*MAPS, *SYMMETRIES))
        check_positive(self.beta, "beta", zero_allowed=True)
        check_whole(self.eras, "eras", least=0)
        if check_positive(self.fraction, "fraction") > 1:
            raise InputError(f"fraction is a share of the unlabelled rows, above 0 and at most 1, not {self.fraction}.")
        check_positive(self.pseudo_weight, "pseudo_weight")

    @property
    def uses_unlabeled(self) -> bool:
        return self.beta > 0 or self.eras > 0

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self | None:
        return None if self.eras else dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        for each in self.transformations:
            check_map(SYMMETRIES[each][1] if each in SYMMETRIES else each, row_shape)
            if each in SYMMETRIES and SYMMETRIES[each][0] is Equivariant:
                require_features(given, row_shape)
        return given

    def carry_out(self, trainer: Trainer) -> Members:
        rows = trainer.rows
        networks, told = self._trained(trainer, rows, ""), []
        shares = np.bincount(rows.y, rows.weight, trainer.n_classes) / rows.weight.sum()
        for era in range(1, self.eras + 1):
            assert rows.x_unlabeled is not None
            probabilities = trainer.predict(networks, rows.x_unlabeled).mean(axis=0, dtype=np.float64)
            chosen, labels = pseudo_labels(probabilities, shares, self.fraction * era / self.eras)
            told.append(np.bincount(labels, minlength=trainer.n_classes).tolist())
            joined = with_pseudo_labels(rows, chosen, labels, self.pseudo_weight)
            networks = self._trained(trainer, joined, f"era-{era}-")
        notes: dict[str, Any] = {"transformations": [self._of(k) for k in range(trainer.n_members)]}
        return Members(networks, notes=notes | ({"pseudo_labels_by_era_and_class": told} if self.eras else {}))

    def _of(self, member: int) -> str:
        return self.transformations[member % len(self.transformations)]

    def _trained(self, trainer: Trainer, rows: TrainingRows, stage: str) -> Networks:
        """All members, those of one transformation after those of another, in the order of their numbers."""
        parts: list[Networks] = []
        order: list[int] = []
        for number, name in enumerate(self.transformations):
            members = range(number, trainer.n_members, len(self.transformations))
            if not members:
                continue
            seen = rows if name in SYMMETRIES or name == "as_is" else transformed(rows, name, trainer)
            method = self._loss(name, rows.x_unlabeled is not None)
            parts.append(trainer.train(f"{stage}{number}-{name}", method, members, rows=seen))
            order += members
        trees = [(part.params, part.model_state) for part in parts]
        params, model_state = jax.tree.map(lambda *leaves: np.concatenate(leaves)[np.argsort(order)], *trees)
        # Members of a symmetry see rows as they are.
        maps = tuple(dict.fromkeys(each if each in MAPS else "as_is" for each in self.transformations))
        at = [maps.index(name if name in MAPS else "as_is") for name in map(self._of, range(trainer.n_members))]
        variables = around(params, model_state, transformation=np.asarray(at, np.int32))
        return Networks(wrapped(parts[0].model, "transformed", transformations=maps), *variables)

    def _loss(self, name: str, has_unlabeled: bool) -> Method:
        """What the members of a transformation minimise; without random labels where no unlabelled row is left."""
        beta = self.beta if has_unlabeled else 0.0
        if name not in SYMMETRIES:
            return Nu(beta).effective()
        kind, group = SYMMETRIES[name]
        # An option decides whether it uses unlabelled rows.
        return kind(group=group, beta=beta, with_unlabeled=beta > 0)  # pyright: ignore[reportReturnType]


@dataclasses.dataclass(frozen=True)
class MultiSymmetryEnsemble(TransformationEnsemble):
    """Members that are invariant to turns of the image in turn with members that are equivariant to them.

    Attributes: those of `TransformationEnsemble`.
    """

    transformations: tuple[str, ...] = ("invariant_rotations", "equivariant_rotations")

    name: ClassVar[str] = "multi_symmetry"


def transformed(rows: TrainingRows, name: str, trainer: Trainer) -> TrainingRows:
    """The rows as a member sees them."""

    def seen(x: np.ndarray) -> np.ndarray:
        parts = [np.asarray(_map(name, trainer.inputs(x[at : at + 4096]))) for at in range(0, len(x), 4096)]
        return np.concatenate(parts)

    u = rows.x_unlabeled
    return rows._replace(x=seen(rows.x), x_unlabeled=None if u is None else seen(u))


def _map(name: str, x: np.ndarray) -> Any:
    return jax.jit(MAPS[name])(x)

"""Hyper-deep ensembles: members that differ in their hyper-parameters as well as in their initialisation.

A pool of networks, each with its own learning rate, weight decay, dropout and initialisation, is trained; K of them
are picked greedily, with replacement, such that the mean probability has the lowest NLL on validation rows. Wenzel et
al., *Hyperparameter Ensembles for Robustness and Uncertainty Quantification*, 2020. With beta > 0 the pool is one of
nu-members.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import jax
import numpy as np

from nu_ensembles.checks import check_array, check_positive, check_whole, shown
from nu_ensembles.errors import InputError
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Networks, Trainer, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import with_dropout

# Times the user's own, where no values are given. AdamW's decay acts through the learning rate, so it has to grow by
# orders of magnitude before it matters.
RATE_FACTORS = (1 / 3, 1.0, 3.0)
DECAY_FACTORS = (1.0, 100.0, 10000.0)
USUAL_DROPOUTS = (0.0, 0.1, 0.3)


class PoolSetting(NamedTuple):
    """The hyper-parameters of one network; dropout None is the network's own."""

    learning_rate: float
    weight_decay: float
    dropout: float | None


@dataclasses.dataclass(frozen=True)
class HyperDeep(Procedure):
    """K networks picked from a pool. Costs `pool_size`/K standard ensembles, and one more for the refit.

    Attributes:
      pool_size: networks to choose from; None for three times the number of members.
      learning_rates: what the pool tries, in all combinations with the next two, shuffled and gone through as often
        as it takes. None tries 1/3, 1 and 3 times the user's rate.
      weight_decays: None tries 1, 100 and 10,000 times the user's decay.
      dropouts: None tries 0, 0.1 and 0.3 if dropout is an option of the network.
      holdout: share of the labelled rows that validate, if the user gives no validation rows.
      stratify: the published second round: K initialisations of every setting that was picked, and another pick.
        Costs up to K more standard ensembles.
      refit: where validation rows were held out, train anew on all labelled rows: member k with the k-th picked
        setting and its own initialisation. What was picked twice becomes two networks; with few validation rows, on
        which the greedy pick soon repeats itself, that is most of the gain.
      beta: weight of random labels on the unlabelled rows; 0 leaves those out.
    """

    pool_size: int | None = None
    learning_rates: tuple[float, ...] | None = None
    weight_decays: tuple[float, ...] | None = None
    dropouts: tuple[float, ...] | None = None
    holdout: float = 0.2
    stratify: bool = False
    refit: bool = True
    beta: float = 0.0

    name: ClassVar[str] = "hyper_deep"

    def __post_init__(self) -> None:
        if self.pool_size is not None:
            check_whole(self.pool_size, "pool_size")
        checks = {
            "learning_rates": lambda v: check_positive(v, "each of learning_rates"),
            "weight_decays": lambda v: check_positive(v, "each of weight_decays", zero_allowed=True),
            "dropouts": lambda v: check_positive(v, "each of dropouts", zero_allowed=True, below=1),
        }
        for name, check in checks.items():
            values = getattr(self, name)
            if values is None:
                continue
            is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
            listed = np.atleast_1d(check_array(values, name)).tolist() if is_list else []
            if not listed:
                raise InputError(f"{name} must list at least one value, as in (0.001, 0.01), not {shown(values)}.")
            object.__setattr__(self, name, tuple(check(value) for value in listed))
        if check_positive(self.holdout, "holdout") >= 1:
            raise InputError(f"holdout is a share of the labelled rows, between 0 and 1, not {self.holdout}.")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self | None:
        return dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        for rate in self.dropouts or ():
            with_dropout(given, rate)
        return given

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        if own_optimizer:
            raise InputError(
                "The pool of 'hyper_deep' differs in learning rate and weight decay, which an optimizer of your own "
                "fixes; leave the optimizer out."
            )
        if not validated:
            self._held_out(rows, np.random.default_rng(0))

    def carry_out(self, trainer: Trainer) -> Members:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(trainer.key)))
        rows, validation = self._parts(trainer, rng)
        pool_size = self.pool_size or 3 * trainer.n_members
        settings, numbers = self.pool(trainer, pool_size, rng), list(range(pool_size))
        n_trained = pool_size
        networks, picked, nll = self._picked("pool", trainer, settings, numbers, rows, validation)
        if self.stratify:
            unique = list(dict.fromkeys(settings[number] for number in picked))
            settings = [setting for setting in unique for _ in range(trainer.n_members)]
            numbers = list(range(trainer.n_members)) * len(unique)
            n_trained += len(numbers)
            networks, picked, nll = self._picked("stratified", trainer, settings, numbers, rows, validation)
        chosen = [settings[number] for number in picked]
        initialisations = [numbers[number] for number in picked]
        if self.refit and trainer.validation is None:
            initialisations = list(range(trainer.n_members))
            n_trained += trainer.n_members
            members = self._trained("refit", trainer, chosen, initialisations, trainer.rows)
        else:
            members = networks.select(picked)
        notes = {
            "picked": picked,
            "settings": [setting._asdict() for setting in chosen],
            "initialisations": initialisations,
            "validation_nll": nll,
            "n_networks_trained": n_trained,
        }
        return Members(members, notes=notes)

    def pool(self, trainer: Trainer, pool_size: int, rng: np.random.Generator) -> list[PoolSetting]:
        """The settings of the pool: every combination once, in random order, before any comes twice.

        Args:
          trainer: which knows the user's own rate, decay and dropout.
          pool_size: how many settings.
          rng: what shuffles them.
        """
        rates = self.learning_rates or tuple(factor * trainer.learning_rate for factor in RATE_FACTORS)
        decays = self.weight_decays or tuple(factor * trainer.weight_decay for factor in DECAY_FACTORS)
        dropouts = self.dropouts or ((None,) if trainer.dropout is None else USUAL_DROPOUTS)
        grid = [PoolSetting(*each) for each in itertools.product(dict.fromkeys(rates), dict.fromkeys(decays), dropouts)]
        drawn: list[PoolSetting] = []
        while len(drawn) < pool_size:
            drawn += [grid[number] for number in rng.permutation(len(grid))]
        return drawn[:pool_size]

    def _parts(self, trainer: Trainer, rng: np.random.Generator) -> tuple[TrainingRows, TrainingRows]:
        """Rows to train the pool on, and rows to pick with."""
        if trainer.validation is not None:
            return trainer.rows, trainer.validation
        return self._held_out(trainer.rows, rng)

    def _held_out(self, rows: TrainingRows, rng: np.random.Generator) -> tuple[TrainingRows, TrainingRows]:
        train, held_out = holdout_rows(rows.y, self.holdout, rng)
        if not len(held_out):
            raise InputError(
                f"{len(rows.y)} labelled rows are too few to hold any out for picking networks; give validation "
                "rows, or use the method 'standard'."
            )
        return rows.labelled(train), rows.labelled(held_out)

    def _picked(
        self,
        stage: str,
        trainer: Trainer,
        settings: list[PoolSetting],
        numbers: list[int],
        rows: TrainingRows,
        validation: TrainingRows,
    ) -> tuple[Networks, list[int], float]:
        """Trained networks, those of them that are picked, and the NLL of the pick on the validation rows."""
        networks = self._trained(stage, trainer, settings, numbers, rows)
        probabilities = trainer.predict(networks, validation.x)
        picked, nll = greedy_pick(probabilities, validation.y, trainer.n_members, validation.weight)
        return networks, picked, nll

    def _trained(
        self, stage: str, trainer: Trainer, settings: list[PoolSetting], numbers: list[int], rows: TrainingRows
    ) -> Networks:
        """One network a setting. Dropout decides the compiled program, so each rate is a stage of its own."""
        parts: list[Networks] = []
        order: list[int] = []
        for group, dropout in enumerate(dict.fromkeys(setting.dropout for setting in settings)):
            here = [index for index, setting in enumerate(settings) if setting.dropout == dropout]
            part = trainer.train(
                f"{stage}-{group}",
                self.base,
                [numbers[index] for index in here],
                rows=rows,
                learning_rates=[settings[index].learning_rate for index in here],
                weight_decays=[settings[index].weight_decay for index in here],
                dropout=dropout,
            )
            parts.append(part)
            order += here
        trees = [(part.params, part.model_state) for part in parts]
        params, model_state = jax.tree.map(lambda *leaves: np.concatenate(leaves)[np.argsort(order)], *trees)
        # Dropout is off in prediction, so the rates make no difference any more.
        return Networks(parts[0].model, params, model_state)


def greedy_pick(
    probabilities: np.ndarray, labels: np.ndarray, n_members: int, weight: np.ndarray | None = None
) -> tuple[list[int], float]:
    """Picks networks one by one, with replacement, each such that the mean probability has the lowest NLL.

    The result is never worse on these rows than the best single network a: NLL is convex in the probability, so adding
    a to a pick whose NLL is at most a's keeps it there, and what is added does no worse than a would.

    Args:
      probabilities: `[P, N, C]` of the pool. labels: int `[N]`. weight: `[N]`, or None for ones.

    Returns:
      `n_members` numbers of networks, in the order of picking (of equally good ones the first), and the NLL.
    """
    weight = np.ones(len(labels)) if weight is None else weight.astype(np.float64)
    of_label = probabilities[:, np.arange(len(labels)), labels].astype(np.float64)
    of_label = np.maximum(of_label, np.finfo(np.float32).tiny)
    total, picked, nll = np.zeros(len(labels)), [], np.empty(0)
    for size in range(1, n_members + 1):
        nll = -np.log((total + of_label) / size) @ weight / weight.sum()
        picked.append(int(np.argmin(nll)))
        total += of_label[picked[-1]]
    return picked, float(nll.min())


def holdout_rows(codes: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers that train and that are held out, ascending; every class in proportion, and never a whole class.

    Args:
      codes: class numbers `[N]`.
    """
    # The r-th of a class's n rows, in random order, stands at (r + 1/2)/n: the first ones of all classes together are
    # a sample in proportion. The last row of a class always trains: without one it could not be learnt.
    place = np.empty(len(codes))
    spared = []
    shuffled = rng.permutation(len(codes))
    for label in np.unique(codes):
        rows = shuffled[codes[shuffled] == label]
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
        spared.append(rows[-1])
    free = np.setdiff1d(shuffled, spared)
    first = free[np.lexsort((rng.permutation(len(free)), place[free]))]
    held_out = np.sort(first[: round(share * len(codes))])
    return np.setdiff1d(shuffled, held_out), held_out

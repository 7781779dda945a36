"""What a study is made of: cells, each one ensemble trained on one seed and measured at some epochs.

The learning rate is constant, so one training passes through every shorter one: a cell names all the epochs at
which it is measured, and serves every protocol that asks for one of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nu_ensembles.errors import InputError

Options = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class StudyCell:
    """One ensemble to train and measure. Everything but `epochs` tells it from other cells.

    Attributes:
      dataset, n_train, n_unlabeled: the data; `n_test` rows of its test part, None for all.
      split: "published" takes the paper's rows whatever the seed, "random" draws them from the seed.
      model: the network's name in the study; `dtype`: of its activations.
      method, options: how it is trained, as `methods.build` takes it.
      learning_rate, weight_decay, batch_size, unlabeled_batch_size, augment: of the training.
      n_members: K.
      seed: of initialisations, batches and random labels (and of the rows, if the split is random).
      epochs: where it is measured; the last one ends it.
      also: further things to measure there, such as "corruptions".
      kind: which measurement this is; see `measure.tasks.KINDS`.
    """

    dataset: str
    n_train: int
    model: str
    method: str
    seed: int
    epochs: tuple[int, ...]
    options: Options = ()
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    n_unlabeled: int = 5000
    n_validation: int = 5000
    n_test: int | None = None
    split: str = "published"
    batch_size: int = 32
    unlabeled_batch_size: int | None = None
    augment: bool = False
    n_members: int = 10
    dtype: str = "float32"
    also: tuple[str, ...] = ()
    kind: str = "trajectory"

    def __post_init__(self) -> None:
        if not self.epochs or any(epoch <= 0 for epoch in self.epochs):
            raise InputError(f"A cell is measured after one epoch or more, not at {self.epochs}.")
        object.__setattr__(self, "epochs", tuple(sorted(set(self.epochs))))
        object.__setattr__(self, "options", tuple(sorted(self.options)))

    @property
    def identity(self) -> StudyCell:
        """The cell without its epochs: what is trained, however long."""
        return dataclasses.replace(self, epochs=(1,))

    @property
    def name(self) -> str:
        """A file name: readable in front, unique behind."""
        plain = json.dumps(self.identity.to_dict(), sort_keys=True).encode()
        digest = hashlib.sha256(plain).hexdigest()[:10]
        return f"{self.dataset}-n{self.n_train}-{self.model}-{self.method}-seed{self.seed}-{digest}"

    @property
    def title(self) -> str:
        """For progress and messages: "cifar10 n=1000 lenet nu beta=0.01 seed 3"."""
        options = "".join(f" {name}={value}" for name, value in self.options)
        return f"{self.dataset} n={self.n_train} {self.model} {self.method}{options} seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        entry = dataclasses.asdict(self)
        return entry | {
            "epochs": list(self.epochs),
            "options": {name: list(value) if isinstance(value, tuple) else value for name, value in self.options},
            "also": list(self.also),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> StudyCell:
        options = {name: tuple(v) if isinstance(v, list) else v for name, v in entry["options"].items()}
        plain = {**entry, "epochs": tuple(entry["epochs"]), "also": tuple(entry["also"])}
        return cls(**{**plain, "options": tuple(options.items())})


def merged_cells(cells: Iterable[StudyCell]) -> list[StudyCell]:
    """Cells in order of first mention, those of one identity as one that is measured at all their epochs."""
    epochs: dict[StudyCell, set[int]] = {}
    for cell in cells:
        epochs.setdefault(cell.identity, set()).update(cell.epochs)
    return [dataclasses.replace(cell, epochs=tuple(found)) for cell, found in epochs.items()]

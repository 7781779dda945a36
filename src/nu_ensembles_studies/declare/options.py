"""What may be asked of a study: which data sets, networks, methods, protocols, sizes and seeds; and how it runs.

An empty tuple means the study's own choice. The command line and `python -m nu_ensembles_studies` both read these
fields; this module stays free of JAX.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nu_ensembles.errors import InputError, unknown_name

PROTOCOLS = ("published", "matched", "selected")
# Of the study `ensembles`: what methods are compared with.
BUDGETS = ("equal-steps", "equal-time")
RULES = ("published", "nll")
DTYPES = ("auto", "float32", "bfloat16")
MEMBERS = 10


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """What a study measures.

    Attributes:
      datasets: Data sets: digits, cifar10, cifar100, wine, breast_cancer, embeddings, mnist, fashion_mnist; the tables
        of rivals.
      models: Networks: mlp, lenet, wrn-22-4.
      methods: Ways to train, such as standard and nu.
      protocols: published (the paper's hyper-parameters), matched (all as nu), selected (each tuned on validation); of
        ensembles equal-steps and equal-time.
      n: Numbers of labelled rows.
      seeds: How many seeds.
      first_seed: The first of them.
      members: Networks in an ensemble; None for the study's own, 10 but for ensemble-size.
      rule: What selected minimises on validation: published is (1 - accuracy)^2 + TACE^2, nll the NLL; empty for the
        study's own.
      fine_betas: Let selected try small values of beta, too, down to 1e-4.
      dtype: Activations of convolutional networks: auto is bfloat16 on a GPU and float32 elsewhere.
      quick: Few epochs, members and rows, to see that it runs; the numbers mean nothing.
      backend: What "auto" was resolved for; empty for this machine's.
    """

    datasets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    n: tuple[int, ...] = ()
    seeds: int = 5
    first_seed: int = 0
    members: int | None = None
    rule: str = ""
    fine_betas: bool = False
    dtype: str = "auto"
    quick: bool = False
    backend: str = ""

    def __post_init__(self) -> None:
        for value, kind, known in (
            *((protocol, "protocol", (*PROTOCOLS, *BUDGETS)) for protocol in self.protocols),
            (self.rule, "selection rule", ("", *RULES)),
            (self.dtype, "dtype", DTYPES),
        ):
            if value not in known:
                raise unknown_name(kind, value, known)
        if self.seeds < 1 or (self.members is not None and self.members < 1) or any(n < 1 for n in self.n):
            raise InputError("seeds, members and n count something: give whole numbers of at least 1.")
        if self.first_seed < 0:
            raise InputError(f"Seeds are 0 or more, so first_seed cannot be {self.first_seed}.")

    @property
    def seed_list(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def or_default(self, **defaults: Any) -> StudyOptions:
        """These options with a study's own choice where nothing was asked for."""
        return dataclasses.replace(self, **{name: getattr(self, name) or value for name, value in defaults.items()})

    def to_dict(self) -> dict[str, Any]:
        entry = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in entry.items()}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> StudyOptions:
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
        return cls(**plain)

    def as_arguments(self) -> list[str]:
        """The options that differ from the defaults, as a command line gives them."""
        words: list[str] = []
        for field in dataclasses.fields(self):
            value, flag = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if value == field.default or field.name == "backend":
                continue
            if isinstance(value, tuple):
                words += [flag, ",".join(map(str, value))]
            else:
                words += [flag] if value is True else [flag, str(value)]
        return words


@dataclasses.dataclass(frozen=True)
class StudyRunOptions:
    """How a study runs, whatever it measures.

    Attributes:
      data_dir: folder that holds the data sets; None for the usual places.
      time_limit: seconds; no group of cells is started that is expected to end later. None for no limit.
      retry_failed: train cells again that failed before.
      mixed: allow cells of another version, device or code in the same folder.
      start_from: results of an earlier run, a file or a folder, whose cells the folder takes over where it has none; of
        another study those that it trained in the same way.
      cells_at_once: how many cells train side by side at most; None lets the device decide.
      keep_probabilities: store the members' probabilities on the test rows of every cell, too.
      stop_on_error: raise what makes a cell fail instead of writing it down.
      verbose: 0 for no progress on standard error.
      on: where cells run: "here", "processes" (beside this one), or "ray" (a cluster).
      address: of the Ray cluster's head, HOST:PORT, or auto.
      cpus_per_task: processors that a task gets there; gpus_per_task: GPUs, .25 lets four tasks share one.
      retries: how often a task is run again whose worker died.
    """

    data_dir: Path | None = None
    time_limit: float | None = None
    retry_failed: bool = False
    mixed: bool = False
    start_from: Path | None = None
    cells_at_once: int | None = None
    keep_probabilities: bool = False
    stop_on_error: bool = False
    verbose: int = 1
    on: str = "here"
    address: str | None = None
    cpus_per_task: float = 1.0
    gpus_per_task: float = 0.0
    retries: int = 3

    def __post_init__(self) -> None:
        if self.cells_at_once is not None and self.cells_at_once < 1:
            raise InputError("cells_at_once counts ensembles: give a whole number of at least 1.")

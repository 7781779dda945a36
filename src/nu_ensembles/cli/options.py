"""The options of `fit`, as frozen dataclasses: their names, defaults and help are what the command line shows.

The names are the estimator's where it has one; defaults are the estimator's (a test compares them). This module
stays free of JAX.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

DATA = Group("Data", sort_key=1)
METHOD = Group("Method", sort_key=2)
NETWORK = Group("Network", sort_key=3)
TRAINING = Group("Training", sort_key=4)
RUN = Group("Long runs", sort_key=5)
OUTPUT = Group("Output", sort_key=6)

FLAG = Parameter(negative=(), show_default=False)
ON = Parameter(negative=())  # off by --name=false
Json = Annotated[bool, FLAG, Parameter(group=OUTPUT)]
Quiet = Annotated[bool, FLAG, Parameter(group=OUTPUT)]
Columns = Annotated[tuple[str, ...], Parameter(show_default=False, metavar="COLUMN", negative=())]


def whole_numbers(_: Any, tokens: Sequence[Token]) -> tuple[int, ...]:
    """`64,64` on the command line, a list or the same text in YAML."""
    try:
        return tuple(int(part) for token in tokens for part in token.value.replace("x", ",").split(","))
    except ValueError:
        raise ValueError("give whole numbers, as in 64,64 (or 32x32 for an image size).") from None


def numbers(_: Any, tokens: Sequence[Token]) -> tuple[float, ...]:
    """`0.001,0.01` on the command line, a list or the same text in YAML."""
    try:
        return tuple(float(part) for token in tokens for part in token.value.split(","))
    except ValueError:
        raise ValueError("give numbers, as in 0.001,0.01.") from None


def height_and_width(type_: Any, tokens: Sequence[Token]) -> tuple[int, int]:
    """`32x32`; one number means both."""
    sides = whole_numbers(type_, tokens)
    if len(sides) not in (1, 2):
        raise ValueError("give HEIGHTxWIDTH, as in 32x32.")
    return sides[0], sides[-1]


Numbers = Annotated[tuple[float, ...], Parameter(converter=numbers, n_tokens=1, metavar="X,X", negative=())]
Layers = Annotated[tuple[int, ...] | None, Parameter(converter=whole_numbers, n_tokens=1, metavar="N,N", negative=())]
ImageSize = Annotated[
    tuple[int, int] | None, Parameter(converter=height_and_width, n_tokens=1, metavar="HxW", negative=())
]

# Of nu_ensembles.calibration, whose import takes its time; a test compares them.
CalibrationName = Literal[
    "auto", "none", "temperature", "smoothed_temperature", "vector_scaling", "matrix_scaling", "beta", "isotonic"
]


@Parameter(name="*", group=DATA)
@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Which rows, and what in them.

    Attributes:
      unlabeled: File or folder of unlabelled rows with the same columns; its labels, if any, are ignored. A folder of
        .parquet or .arrow files, a pattern such as 'rows/*.parquet' and a .npy file may be larger than memory.
      target: Column that holds the labels. A .npz file has them in y, a folder of images in its sub-folders' names.
      drop: Column to leave out; repeat the option for more.
      keep: Column that is no feature and is copied to the predictions, such as an identifier; repeat for more.
      column_type: What a column is, where its values do not tell, as in zip=category, size=S,M,L (levels in order),
        code=number or day=date; repeat the option for more.
      image_size: Resize images to HEIGHTxWIDTH, as in 32x32.
      channels: Read images as grey (1) or colour (3); colour unless all are grey.
    """

    unlabeled: Path | None = None
    target: str | None = None
    drop: Columns = ()
    keep: Columns = ()
    column_type: Annotated[tuple[str, ...], Parameter(show_default=False, metavar="COLUMN=TYPE", negative=())] = ()
    image_size: ImageSize = None
    channels: Literal[1, 3] | None = None


@Parameter(name="*", group=METHOD)
@dataclasses.dataclass(frozen=True)
class MethodOptions:
    """How the ensemble is trained.

    Attributes:
      method: nu, or any other method of the package, such as standard.
      members: How many networks.
      beta: Weight of the unlabelled loss, or auto: chosen together with the length of training.
      betas: What auto tries beside 0; goes on by itself when the best value sits on the edge.
      labels: How unlabelled rows get their labels; all but the first are for experiments.
      tolerance: auto takes the smallest beta within so many standard errors of the best; larger is more cautious.
      deployment: Where unlabelled rows differ from labelled ones, let auto choose by what they tell; with
        --deployment=false they are taken for rows from where the labelled ones come from.
      priors: Where classes have other shares among the unlabelled rows, and nothing else differs, move probabilities
        there; --priors=false leaves them.
      early_stopping: With a given beta or another method: choose the length of training, too.
      calibration: Calibrate the probabilities on held-out rows: auto takes what clearly gains there.
      temperature: The older way to say --calibration temperature.
      companion: Pool the networks of a table with a tempered random forest, with a weight learnt on held-out rows.
      cv: Folds that the choices are made on.
      validation: File of labelled rows that takes the place of the folds.
      method_options: Further options of the method, as in --method-options.alpha 0.1; several values as in 0.1,0.2.
    """

    method: str = "nu"
    members: int = 10
    beta: Annotated[float | Literal["auto"], Parameter(metavar="auto|NUMBER", show_choices=False)] = "auto"
    betas: Numbers = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    labels: Literal["without_replacement", "with_replacement", "shared", "uniform"] = "without_replacement"
    tolerance: float = 1.0
    deployment: Annotated[bool, ON] = True
    priors: Annotated[bool, ON] = True
    early_stopping: Annotated[bool, FLAG] = False
    calibration: CalibrationName | None = None
    temperature: Annotated[bool, FLAG] = False
    companion: Literal["forest"] | None = None
    cv: int = 5
    validation: Path | None = None
    method_options: Annotated[dict[str, tuple[str, ...]], Parameter(show_default=False)] = dataclasses.field(
        default_factory=dict
    )


@Parameter(name="*", group=NETWORK)
@dataclasses.dataclass(frozen=True)
class NetworkOptions:
    """The network of each member.

    Attributes:
      model: mlp, mlp_large, lenet, signal (series), wide_resnet, or wrn-DEPTH-WIDTH such as wrn-22-4.
      hidden: Units of each hidden layer of mlp, as in 64,64.
      dropout: Share of units dropped in training.
      standardize: Scale columns to mean 0 and variance 1; auto does so for tables and leaves images alone.
      augment: Random flips and crops of labelled images.
    """

    model: str = "mlp"
    hidden: Layers = None
    dropout: float | None = None
    standardize: Literal["auto", "always", "never"] = "auto"
    augment: Literal["flip_crop"] | None = None

    def model_options(self) -> dict[str, Any] | None:
        chosen = {"hidden": self.hidden, "dropout": self.dropout}
        return {name: value for name, value in chosen.items() if value is not None} or None


@Parameter(name="*", group=TRAINING)
@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """The optimiser.

    Attributes:
      max_iter: Passes over the labelled rows, or the most of them where the length is chosen.
      batch_size: Labelled rows that a member sees in a step.
      unlabeled_batch_size: Unlabelled rows beside them; the same number by default.
      learning_rate: Of AdamW, constant.
      weight_decay: Of AdamW.
      class_weight: balanced makes every class count the same.
      seed: The same seed, data and options give the same ensemble.
      plan: How members run: auto, vectorised, sequential or sharded.
      deterministic: The same bits on every run on a GPU, too, where training takes longer for it.
    """

    max_iter: int = 500
    batch_size: int = 32
    unlabeled_batch_size: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    class_weight: Literal["balanced"] | None = None
    seed: int = 0
    plan: str = "auto"
    deterministic: Annotated[bool, FLAG] = False


@Parameter(name="*", group=RUN)
@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What survives a kill.

    Attributes:
      run_folder: Folder for checkpoints, the finished search and a log; the model goes to its sub-folder model, and to
        --out, too, if that is given.
      resume: Go on with a stopped or killed run in --run-folder; give the same data and options.
      checkpoint_seconds: How often the search and the training are saved.
    """

    run_folder: Path | None = None
    resume: Annotated[bool, FLAG] = False
    checkpoint_seconds: float = 30.0


@Parameter(name="*", group=RUN)
@dataclasses.dataclass(frozen=True)
class PlaceOptions:
    """Where work is carried out.

    Attributes:
      on: here, processes (beside this one), or ray: the tasks of a Ray cluster, where package and data are, too.
      address: Of the Ray cluster's head, HOST:PORT, given on one of its nodes, or auto; by default RAY_ADDRESS.
      cpus_per_task: Processors that a task gets there.
      gpus_per_task: GPUs that a task gets there; .25 lets four tasks share one.
      retries: How often a task is run again whose worker or node died.
    """

    on: Literal["here", "processes", "ray"] = "here"
    address: str | None = None
    cpus_per_task: float = 1.0
    gpus_per_task: float = 0.0
    retries: int = 3

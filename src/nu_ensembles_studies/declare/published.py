"""What the paper and its code published: Table 1, final hyper-parameters, search grids.

Pitas and Arbel, *Something for (almost) nothing: improving deep ensemble calibration using unlabeled data*: the table
is the paper's (one ensemble, no error bars); the hyper-parameters are those of the training scripts of
konstantinos-p/something_for_almost_nothing at e965257, its grids those of the tuning scripts. Where the two disagree
the scripts stand here, because they say what ran.
"""

from __future__ import annotations

import dataclasses
from typing import Any

METRICS = ("accuracy", "ece", "tace", "brier_reliability", "nll", "mutual_information")
"""Columns of Table 1, by their names in `metrics.evaluate`."""

TABLE_1: dict[tuple[str, str, str], tuple[float, ...]] = {
    ("cifar10", "lenet", "standard"): (0.522, 0.184, 0.035, 0.137, 2.198, 1.313),
    ("cifar10", "lenet", "agree_to_disagree"): (0.432, 0.251, 0.050, 0.168, 2.250, 1.552),
    ("cifar10", "lenet", "pac2"): (0.492, 0.103, 0.024, 0.073, 1.454, 1.179),
    ("cifar10", "lenet", "nu"): (0.5141, 0.131, 0.028, 0.117, 1.650, 1.245),
    ("cifar10", "mlp", "standard"): (0.398, 0.238, 0.050, 0.162, 2.197, 1.615),
    ("cifar10", "mlp", "agree_to_disagree"): (0.354, 0.358, 0.066, 0.239, 3.201, 1.547),
    ("cifar10", "mlp", "pac2"): (0.383, 0.024, 0.024, 0.068, 1.768, 1.711),
    ("cifar10", "mlp", "nu"): (0.401, 0.098, 0.023, 0.092, 1.767, 1.559),
    ("cifar10", "wrn-22-4", "standard"): (0.529, 0.096, 0.024, 0.108, 1.714, 0.992),
    ("cifar10", "wrn-22-4", "agree_to_disagree"): (0.478, 0.051, 0.020, 0.087, 1.633, 0.706),
    ("cifar10", "wrn-22-4", "nu"): (0.526, 0.010, 0.017, 0.086, 1.449, 0.691),
    ("cifar100", "lenet", "standard"): (0.151, 0.301, 0.007, 0.216, 9.434, 2.228),
    ("cifar100", "lenet", "agree_to_disagree"): (0.113, 0.229, 0.007, 0.156, 7.568, 1.628),
    ("cifar100", "lenet", "pac2"): (0.139, 0.087, 0.005, 0.070, 4.193, 2.129),
    ("cifar100", "lenet", "nu"): (0.147, 0.155, 0.006, 0.113, 4.846, 1.654),
    ("cifar100", "mlp", "standard"): (0.102, 0.253, 0.007, 0.160, 5.926, 3.093),
    ("cifar100", "mlp", "agree_to_disagree"): (0.093, 0.359, 0.008, 0.243, 7.247, 2.881),
    ("cifar100", "mlp", "pac2"): (0.093, 0.257, 0.008, 0.160, 6.134, 3.103),
    ("cifar100", "mlp", "nu"): (0.103, 0.040, 0.004, 0.049, 4.171, 2.807),
    ("cifar100", "wrn-22-4", "standard"): (0.136, 0.197, 0.007, 0.141, 7.700, 1.701),
    ("cifar100", "wrn-22-4", "agree_to_disagree"): (0.132, 0.172, 0.007, 0.124, 6.831, 1.708),
    ("cifar100", "wrn-22-4", "nu"): (0.134, 0.135, 0.006, 0.099, 4.892, 1.476),
}
"""(data set, network, method) -> the columns; the paper's "Masegosa" is `pac2` in its variant "as_published"."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hyper-parameters of one row: learning rate, epochs, and what the method takes."""

    learning_rate: float
    epochs: int
    options: tuple[tuple[str, Any], ...] = ()


def _nu(learning_rate: float, epochs: int, beta: float) -> Setting:
    return Setting(learning_rate, epochs, (("beta", beta),))


def _agree(learning_rate: float, epochs: int, alpha: float) -> Setting:
    return Setting(learning_rate, epochs, (("alpha", alpha), ("variant", "as_published")))


def _masegosa(learning_rate: float, epochs: int) -> Setting:
    return Setting(learning_rate, epochs, (("variant", "as_published"),))


# At 1,000 labels; CIFAR-100's rows hold at every size, CIFAR-10's change above (next table). The scripts of the two
# baselines look like copies of those for 40,000 labels, with 10 epochs of LeNet among them: see the remarks below.
_SETTINGS: dict[tuple[str, str, str], Setting] = {
    ("cifar10", "lenet", "standard"): Setting(1e-3, 200),
    ("cifar10", "lenet", "nu"): _nu(1e-3, 100, 0.01),
    ("cifar10", "lenet", "agree_to_disagree"): _agree(1e-3, 10, 1e-4),
    ("cifar10", "lenet", "pac2"): _masegosa(1e-3, 50),
    ("cifar10", "mlp", "standard"): Setting(1e-4, 250),
    ("cifar10", "mlp", "nu"): _nu(1e-4, 140, 0.01),
    ("cifar10", "mlp", "agree_to_disagree"): _agree(1e-4, 100, 1e-2),
    ("cifar10", "mlp", "pac2"): _masegosa(1e-4, 50),
    ("cifar10", "wrn-22-4", "standard"): Setting(1e-3, 400),
    ("cifar10", "wrn-22-4", "nu"): _nu(1e-3, 350, 0.01),
    ("cifar10", "wrn-22-4", "agree_to_disagree"): _agree(1e-3, 200, 1e-3),
    ("cifar10", "wrn-22-4", "pac2"): _masegosa(1e-3, 100),
    ("cifar100", "lenet", "standard"): Setting(1e-3, 100),
    ("cifar100", "lenet", "nu"): _nu(1e-3, 140, 0.01),
    ("cifar100", "lenet", "agree_to_disagree"): _agree(1e-4, 50, 1e-2),
    ("cifar100", "lenet", "pac2"): _masegosa(1e-3, 50),
    ("cifar100", "mlp", "standard"): Setting(1e-4, 200),
    ("cifar100", "mlp", "nu"): _nu(1e-4, 260, 0.01),
    ("cifar100", "mlp", "agree_to_disagree"): _agree(1e-5, 200, 1e-3),
    ("cifar100", "mlp", "pac2"): _masegosa(1e-4, 50),
    ("cifar100", "wrn-22-4", "standard"): Setting(1e-4, 270),
    ("cifar100", "wrn-22-4", "nu"): _nu(1e-4, 400, 0.01),
    ("cifar100", "wrn-22-4", "agree_to_disagree"): _agree(1e-4, 100, 1e-4),
    ("cifar100", "wrn-22-4", "pac2"): _masegosa(1e-3, 100),
    # Not published: the digits in the proportions of LeNet on CIFAR-10, for a study in small.
    ("digits", "mlp", "standard"): Setting(1e-3, 200),
    ("digits", "mlp", "nu"): _nu(1e-3, 100, 0.003),
    ("digits", "mlp", "agree_to_disagree"): _agree(1e-3, 100, 1e-4),
    ("digits", "mlp", "pac2"): _masegosa(1e-3, 100),
    ("digits", "lenet", "standard"): Setting(1e-3, 100),
    ("digits", "lenet", "nu"): _nu(1e-3, 50, 0.003),
}

_SETTINGS_ABOVE_1000: dict[tuple[str, str, str], Setting] = {
    ("cifar10", "lenet", "standard"): Setting(1e-3, 250),
    ("cifar10", "lenet", "nu"): _nu(1e-3, 240, 0.01),
    ("cifar10", "mlp", "standard"): Setting(1e-4, 250),
    ("cifar10", "mlp", "nu"): _nu(1e-4, 140, 0.01),
    ("cifar10", "wrn-22-4", "standard"): Setting(1e-4, 350),
    ("cifar10", "wrn-22-4", "nu"): _nu(1e-4, 250, 0.05),
}

SIZES = (1000, 2000, 4000, 10_000, 40_000)
RATES = (1e-4, 1e-3)
ALPHAS = (1.0, 0.1, 0.01, 0.001, 0.0001)
BETAS = (1.0, 0.1, 0.05, 0.01)
"""The grid of the tuning scripts; beta = 0, which the paper lists, is the standard ensemble's own row."""
EPOCHS = {
    "lenet": (100, 120, 140, 160, 180, 200, 220, 240, 260),
    "mlp": (100, 120, 140, 160, 180, 200, 220, 240, 260),
    "wrn-22-4": (200, 220, 250, 270, 300, 320, 350, 370, 400),
}
STANDARD_EPOCHS = {
    "lenet": (10, 20, 50, 80, 100, 150, 200, 250),
    "mlp": (10, 20, 50, 80, 100, 150, 200, 250),
    "wrn-22-4": (100, 150, 200, 220, 250, 270, 300, 320, 350, 370, 400),
}
"""The scripts searched other lengths for standard ensembles than for nu-ensembles."""

REMARKS = (
    "Standard and ν were trained for different lengths: on CIFAR-10 with 1,000 labels the standard ensemble longer "
    "(LeNet 200 against 100 epochs, MLP 250 against 140, ResNet22 400 against 350), on CIFAR-100 shorter.",
    "The scripts of Agree to Disagree and Masegosa use the same values for 1,000 as for 40,000 labels, so Agree to "
    "Disagree's LeNet on CIFAR-10 takes 310 steps; the committed configuration (100 labels, two members) cannot have "
    "made the table's row as it stands.",
    "Standard and ν were tuned with 50 trials, the baselines with 10.",
)


def setting(dataset: str, model: str, method: str, n_train: int) -> Setting | None:
    """The published hyper-parameters of a row (or the digits' stand-in), or None if there are none."""
    key = dataset, model, method
    if dataset == "cifar10" and n_train > 1000 and key in _SETTINGS_ABOVE_1000:
        return _SETTINGS_ABOVE_1000[key]
    return _SETTINGS.get(key)


def table_value(dataset: str, model: str, method: str, metric: str) -> float | None:
    """What Table 1 says, or None where it says nothing."""
    row = TABLE_1.get((dataset, model, method))
    return row[METRICS.index(metric)] if row is not None and metric in METRICS else None

"""All shifts by name, which of them a rule may be developed on, and which confirm it.

A name is the data and what differs in the deployment: `vehicle.component-1`, `digits.fog-3`, `income.AGE`,
`digits.to-mnist`, `cifar10.contrast-4`. `vehicle.same` is the control: nothing differs.
"""

from __future__ import annotations

from pathlib import Path

from nu_ensembles.corruptions.severities import COMMON_NAMES
from nu_ensembles.errors import unknown_name
from nu_ensembles_studies.shifts.drawing import Shifted
from nu_ensembles_studies.shifts.images import MNIST_FILE, corrupted_cifar, corrupted_digits, digits_and_mnist
from nu_ensembles_studies.shifts.natural import NATURAL, split_naturally
from nu_ensembles_studies.shifts.splits import SPLITS, split_table
from nu_ensembles_studies.shifts.tables import BUNDLED, TABLES, data_folder, file_of, read

DEVELOPMENT, CONFIRMING = "development", "confirming"
ABSENT = "left out, because the folder that NU_ENSEMBLES_DATA names (or --data-dir) does not hold them"
# What a rule for beta may be developed on; all else confirms it.
DEVELOPED_ON = ("component-1", "component-2")
DEVELOPED_ON_CORRUPTIONS = tuple(
    f"{name}-{severity}" for name in COMMON_NAMES if name.endswith(("noise", "blur")) for severity in (1, 3, 5)
)
ON_CIFAR = ("contrast-4", "fog-4", "motion_blur-3", "gaussian_noise-3")


def names() -> tuple[str, ...]:
    """Every shift that there is, whether or not its data are at hand."""
    corrupted = (f"digits.{name}-{severity}" for name in COMMON_NAMES for severity in range(1, 6))
    tables = (f"{table}.{kind}" for kind in SPLITS for table in TABLES)
    cifar = (f"cifar10.{change}" for change in ON_CIFAR)
    return (*corrupted, *tables, *NATURAL, "digits.to-mnist", "digits.from-mnist", *cifar)


def role_of(name: str) -> str:
    """Whether a rule may be developed on a shift; controls and priors belong to either side, told apart by seed."""
    change = _parts(name)[1]
    developed = (*DEVELOPED_ON, *DEVELOPED_ON_CORRUPTIONS)
    return DEVELOPMENT if change in developed and not name.startswith("cifar10.") else CONFIRMING


def available(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether the data of a shift are at hand."""
    data, change = _parts(name)
    if data in BUNDLED and not change.endswith("-mnist"):
        return True
    folder = data_folder(data_dir)
    if folder is None:
        return False
    if data == "cifar10":
        return (folder / "cifar10").is_dir()
    return (folder / MNIST_FILE if data == "digits" else file_of(data, folder)).is_file()


def load(name: str, seed: int = 0, n_labelled: int = 100, data_dir: str | Path | None = None) -> Shifted:
    """The rows of a shift: the same name, seed and number of labels give the same rows.

    Args:
      name: one of `names()`.
      seed: of the rows that are drawn; of the cluster, column and priors, too.
      n_labelled: labelled source rows; fewer where the source has not twice as many, more where there are more than
        half as many classes.
      data_dir: folder of the data sets that come with no package; None for the one that NU_ENSEMBLES_DATA names.

    Raises:
      InputError: there is no such shift, or its data are not at hand.
    """
    data, change = _parts(name)
    folder = data_folder(data_dir)
    if name in NATURAL:
        return split_naturally(read(data, folder), NATURAL[name], seed, n_labelled)
    if change in SPLITS:
        return split_table(read(data, folder), change, seed, n_labelled)
    if change.endswith("-mnist"):
        return digits_and_mnist(change == "to-mnist", seed, n_labelled, folder)
    corruption, severity = change.rsplit("-", 1)
    if data == "cifar10":
        return corrupted_cifar(corruption, int(severity), seed, n_labelled, folder)
    return corrupted_digits(corruption, int(severity), seed, n_labelled)


def _parts(name: str) -> tuple[str, str]:
    if name not in names():
        raise unknown_name("shift", name, names())
    data, change = name.split(".", 1)
    return data, change

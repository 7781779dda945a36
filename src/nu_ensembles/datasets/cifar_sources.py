"""Where CIFAR-10 and CIFAR-100 come from: file names, checksums, sizes and addresses, all in one table.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

_HOME = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class Archive:
    """An official archive, packed or unpacked.

    Attributes:
      file: name of the packed archive.
      folder: folder in which it unpacks.
      train, test: files of each part, in order, with their MD5 sums (None where none is known).
      md5: checksum of the packed archive.
      address: where to download it.
    """

    file: str
    folder: str
    train: tuple[tuple[str, str | None], ...]
    test: tuple[tuple[str, str | None], ...]
    md5: str | None
    address: str


@dataclass(frozen=True)
class CifarSource:
    """One of the two sets.

    Attributes:
      name: `cifar10` or `cifar100`, also the name of its folder.
      n_classes: number of classes, or of fine classes.
      label: column of labels in parquet files, and key in pickles (there in the plural).
      coarse_label: the same for superclasses, if there are any.
      n_train, n_test: number of images.
      python, binary: the two official archives.
    """

    name: str
    n_classes: int
    label: str
    coarse_label: str | None
    n_train: int
    n_test: int
    python: Archive
    binary: Archive


CIFAR10 = CifarSource(
    name="cifar10",
    n_classes=10,
    label="label",
    coarse_label=None,
    n_train=50_000,
    n_test=10_000,
    python=Archive(
        file="cifar-10-python.tar.gz",
        folder="cifar-10-batches-py",
        train=(
            ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
            ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
            ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
            ("data_batch_4", "634d18415352ddfa80567beed471001a"),
            ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
        ),
        test=(("test_batch", "40351d587109b95175f43aff81a1287e"),),
        md5="c58f30108f718f92721af3b95e74349a",
        address=_HOME + "cifar-10-python.tar.gz",
    ),
    binary=Archive(
        file="cifar-10-binary.tar.gz",
        folder="cifar-10-batches-bin",
        train=tuple((f"data_batch_{number}.bin", None) for number in range(1, 6)),
        test=(("test_batch.bin", None),),
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        address=_HOME + "cifar-10-binary.tar.gz",
    ),
)

CIFAR100 = CifarSource(
    name="cifar100",
    n_classes=100,
    label="fine_label",
    coarse_label="coarse_label",
    n_train=50_000,
    n_test=10_000,
    python=Archive(
        file="cifar-100-python.tar.gz",
        folder="cifar-100-python",
        train=(("train", "16019d7e3df5f24257cddd939b257f8d"),),
        test=(("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        address=_HOME + "cifar-100-python.tar.gz",
    ),
    binary=Archive(
        file="cifar-100-binary.tar.gz",
        folder="cifar-100-binary",
        train=(("train.bin", None),),
        test=(("test.bin", None),),
        md5="03b5dce01913d631647c71ecec9e9cb8",
        address=_HOME + "cifar-100-binary.tar.gz",
    ),
)

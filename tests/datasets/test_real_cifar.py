"""The real sets, where `NU_ENSEMBLES_DATA` names a folder that holds them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.datasets import cifar, load_cifar10, load_cifar100
from nu_ensembles.datasets.cifar_sources import CIFAR10

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("NU_ENSEMBLES_DATA" not in os.environ, reason="the real images are not in the repository"),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("loader", "mean", "deviation"),
    [
        (load_cifar10, (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)),
        (load_cifar100, (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)),
    ],
)
def test_the_real_sets_have_their_known_sizes_balance_and_statistics(
    loader: Callable[..., cifar.ImageSet], mean: tuple, deviation: tuple
) -> None:
    for _ in range(2):  # decoded, then from the cache
        found = loader(may_download=False, verbose=0)
        n_classes = found.train_labels.max() + 1
        assert found.train_images.shape == (50_000, 32, 32, 3)
        assert np.bincount(found.train_labels).tolist() == [50_000 // n_classes] * n_classes
        assert np.bincount(found.test_labels).tolist() == [10_000 // n_classes] * n_classes
        assert found.train_images.mean(axis=(0, 1, 2)) == pytest.approx(mean, abs=0.06)
        assert found.train_images.std(axis=(0, 1, 2)) == pytest.approx(deviation, abs=0.06)


def test_the_first_test_images_are_those_of_the_golden_corruptions() -> None:
    golden = np.load(Path(__file__).parents[1] / "golden" / "corruptions" / "clean.npz")["images"]
    np.testing.assert_array_equal(load_cifar10(may_download=False, verbose=0).test_images[: len(golden)], golden)


def test_the_binary_version_rebuilt_from_the_hub_files_reads_back_as_the_same_arrays(tmp_path: Path) -> None:
    found = load_cifar10(may_download=False, verbose=0)
    source = dataclasses.replace(CIFAR10, binary=dataclasses.replace(CIFAR10.binary, md5=None))
    folder = tmp_path / source.binary.folder
    folder.mkdir()
    for part in ("train", "test"):
        images, labels = getattr(found, f"{part}_images"), getattr(found, f"{part}_labels")
        records = np.concatenate(
            [labels[:, None].astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(len(images), -1)], axis=1
        )
        names = [name for name, _ in getattr(source.binary, part)]
        for name, rows in zip(names, np.array_split(records, len(names)), strict=True):
            assert rows.nbytes == 30_730_000  # the size of the official files
            (folder / name).write_bytes(rows.tobytes())
    again = cifar.load(source, tmp_path, "fine", may_download=False, verbose=0)
    np.testing.assert_array_equal(again.train_images, found.train_images)
    np.testing.assert_array_equal(again.test_labels, found.test_labels)

"""CIFAR comes out the same whatever form it is in; what is missing or damaged is named."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from nu_ensembles.datasets import cifar, cifar_cache, load_cifar10, load_cifar100
from nu_ensembles.datasets.cifar_sources import CifarSource
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage import load_arrays


def _fixture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cifar_fixture", Path(__file__).with_name("cifar_fixture.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["cifar_fixture"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


small = _fixture()
SETS = pytest.mark.parametrize("one", [small.SMALL10, small.SMALL100], ids=["cifar10", "cifar100"])
FORMS: dict[str, Callable] = {
    "parquet of PNG": lambda one, folder: small.write_parquet(one, folder),
    "parquet of WebP": lambda one, folder: small.write_parquet(one, folder, "WEBP"),
    "parquet in three shards": lambda one, folder: small.write_parquet(one, folder / "plain_text", n_shards=3),
    "parquet in a folder of its name": lambda one, folder: small.write_parquet(one, folder / one.source.name),
    "npz": lambda one, folder: small.write_npz(one, folder),
    "python archive": lambda one, folder: small.write_packed(one, folder, "python"),
    "python archive, unpacked": lambda one, folder: small.write_unpacked(one, folder, "python"),
    "binary archive": lambda one, folder: small.write_packed(one, folder, "binary"),
    "binary archive, unpacked": lambda one, folder: small.write_unpacked(one, folder, "binary"),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("NU_ENSEMBLES_DATA", raising=False)
    return folder


def load(source: CifarSource, place: Path | None, labels: str = "fine", may_download: bool = False) -> cifar.ImageSet:
    return cifar.load(source, place, labels, may_download, verbose=0)


@SETS
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_arrays_first_decoded_then_from_the_cache(one, form: str, tmp_path: Path) -> None:
    FORMS[form](one, tmp_path)
    for _ in range(2):
        found = load(one.source, tmp_path)
        assert found.train_images.dtype == np.uint8
        assert found.train_labels.dtype == np.int64
        for part in ("train", "test"):
            images, labels, coarse = one.part(part)
            np.testing.assert_array_equal(getattr(found, f"{part}_images"), images)
            np.testing.assert_array_equal(getattr(found, f"{part}_labels"), labels)
            if one.source.coarse_label:
                by_superclass = load(one.source, tmp_path, "coarse")
                np.testing.assert_array_equal(getattr(by_superclass, f"{part}_labels"), coarse)


@pytest.mark.parametrize("form", ["python archive", "npz"])
def test_the_file_itself_can_be_named(form: str, tmp_path: Path) -> None:
    FORMS[form](small.SMALL10, tmp_path)
    (file,) = tmp_path.iterdir()
    assert len(load(small.SMALL10.source, file).test_labels) == small.N_TEST


def test_both_sets_can_lie_side_by_side_and_are_told_apart_by_their_columns(tmp_path: Path) -> None:
    for one in (small.SMALL10, small.SMALL100):
        small.write_parquet(one, tmp_path / one.source.name)
    for one in (small.SMALL10, small.SMALL100):
        np.testing.assert_array_equal(load(one.source, tmp_path).train_labels, one.part("train")[1])
    with pytest.raises(InputError, match="holds no cifar10"):
        load(small.SMALL10.source, tmp_path / "cifar100")


def test_a_second_load_maps_the_cache_file_and_reads_no_source(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    (file,) = own_cache.rglob("*.safetensors")
    monkeypatch.setattr("nu_ensembles.datasets.cifar_readers._read_npz", None)
    again = load(small.SMALL10.source, tmp_path)
    assert not again.train_images.flags.writeable
    assert cifar_cache.mapped(file).keys() == {"train_images", "train_labels", "test_images", "test_labels"}


def flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda raw: raw[:-100],
    "longer": lambda raw: raw + b"\0",
    "empty": lambda raw: b"",
    "overwritten": lambda raw: b"\xff" * len(raw),
    "a bit of the header's length": lambda raw: flipped(raw, 0),
    "a bit of a shape": lambda raw: flipped(raw, raw.index(b"[15,32,32,3]") + 2),
    "a bit of the checksum": lambda raw: flipped(raw, raw.index(b"crc32") + 10),
    "a bit of an image": lambda raw: flipped(raw, len(raw) // 2),
    "the last bit": lambda raw: flipped(raw, len(raw) - 1),
    "another file of the same form": lambda raw: raw.replace(b"crc32", b"crc31"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_file_is_made_again(damage: str, tmp_path: Path, own_cache: Path) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    (file,) = own_cache.rglob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    np.testing.assert_array_equal(load(small.SMALL10.source, tmp_path).test_images, small.SMALL10.part("test")[0])
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "changes",
    [
        {"test_labels": np.zeros(3, np.int64)},
        {"test_labels": np.full(15, -1)},
        {"train_images": np.zeros((15, 3072), np.uint8)},
        {"train_labels": np.zeros(15, np.uint8)},
    ],
    ids=str,
)
def test_a_cache_file_of_another_form_is_made_again_though_its_checksum_is_right(
    changes: dict[str, np.ndarray], tmp_path: Path, own_cache: Path
) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    (file,) = own_cache.rglob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(cifar_cache._with_checksum({**cifar_cache.mapped(file), **changes}))
    np.testing.assert_array_equal(load(small.SMALL10.source, tmp_path).test_labels, small.SMALL10.part("test")[1])
    assert file.read_bytes() == whole


def test_a_pipe_in_the_place_of_the_cache_file_is_replaced(tmp_path: Path, own_cache: Path) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    (file,) = own_cache.rglob("*.safetensors")
    file.unlink()
    os.mkfifo(file)
    np.testing.assert_array_equal(load(small.SMALL10.source, tmp_path).test_images, small.SMALL10.part("test")[0])
    assert file.is_file()


def test_the_cache_file_is_an_ordinary_safetensors_file(tmp_path: Path, own_cache: Path) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    (file,) = own_cache.rglob("*.safetensors")
    np.testing.assert_array_equal(load_arrays(file, None)["train_images"], small.SMALL10.part("train")[0])


def test_a_changed_source_is_decoded_anew(tmp_path: Path) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    load(small.SMALL10.source, tmp_path)
    other = dataclasses.replace(small.SMALL10, images=255 - small.SMALL10.images)
    (tmp_path / "cifar10.npz").unlink()
    small.write_npz(other, tmp_path)
    np.testing.assert_array_equal(load(small.SMALL10.source, tmp_path).test_images, other.part("test")[0])


def test_where_nothing_can_be_cached_the_set_loads_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert len(load(small.SMALL10.source, tmp_path).train_images) == small.N_TRAIN


def test_the_environment_names_the_folder_and_the_cache_comes_next(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    monkeypatch.setenv("NU_ENSEMBLES_DATA", str(tmp_path))
    assert len(load(small.SMALL10.source, None).test_labels) == small.N_TEST
    cache = own_cache / "nu-ensembles" / "data" / "cifar100"
    small.write_parquet(small.SMALL100, cache)
    assert len(load(small.SMALL100.source, None).test_labels) == small.N_TEST
    monkeypatch.setenv("NU_ENSEMBLES_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"NU_ENSEMBLES_DATA names .*nowhere"):
        load(small.SMALL10.source, None)


def test_a_set_that_is_nowhere_is_said_to_be_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="allow a download"):
        load_cifar10(may_download=False)
    with pytest.raises(InputError, match=r"cifar-100-python\.tar\.gz"):
        load_cifar100(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        load_cifar10(tmp_path / "nowhere")
    with pytest.raises(InputError, match="Did you mean 'coarse'"):
        load_cifar100(tmp_path, labels="corse")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("form", [form for form in FORMS if "three" not in form])
def test_a_file_that_was_cut_off_is_named(form: str, tmp_path: Path) -> None:
    FORMS[form](small.SMALL10, tmp_path)
    file = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 + 7])
    with pytest.raises(DamagedFileError, match=file.name):
        load(small.SMALL10.source, tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    small.write_parquet(small.SMALL10, tmp_path, n_shards=3)
    (tmp_path / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DamagedFileError, match=r"lacks train-00001-of-00003\.parquet"):
        load(small.SMALL10.source, tmp_path)


@pytest.mark.parametrize("form", ["python archive", "python archive, unpacked", "binary archive"])
def test_official_files_must_have_their_official_checksums(form: str, tmp_path: Path) -> None:
    FORMS[form](small.SMALL10, tmp_path)
    with pytest.raises(DamagedFileError, match="official checksum"):
        load_cifar10(tmp_path)


def test_a_set_with_too_few_images_is_refused(tmp_path: Path) -> None:
    small.write_npz(small.SMALL10, tmp_path)
    with pytest.raises(DamagedFileError, match=r"\(15, 32, 32, 3\) instead of \(50000, 32, 32, 3\)"):
        load_cifar10(tmp_path)


def test_labels_outside_the_classes_are_refused(tmp_path: Path) -> None:
    small.write_npz(dataclasses.replace(small.SMALL10, labels=small.SMALL10.labels + 1), tmp_path)
    with pytest.raises(DamagedFileError, match="outside 0 … 9"):
        load(small.SMALL10.source, tmp_path)

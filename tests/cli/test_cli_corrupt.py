"""`nu-ensembles corrupt` writes what `corrupt` gives: arrays for arrays, files for files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from nu_ensembles.corruptions import COMMON_NAMES, corrupt

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 12, 10, 3), dtype=np.uint8)


@pytest.fixture
def array(desk):
    path = desk.folder / "test.npz"
    np.savez(path, X=IMAGES, y=np.arange(4))
    return path


@pytest.fixture
def photos(desk):
    folder = desk.folder / "photos"
    for index, image in enumerate(IMAGES):
        place = folder / ("cat" if index < 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{index}.png")
    return folder


def test_an_array_becomes_an_archive_for_each_corruption_and_severity(desk, array):
    out = desk.folder / "corrupted"
    outcome = desk.run("corrupt", array, "--name", "fog", "--name", "contrast", "--severity", "2,5", "--out", out)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"4 images in 4 ways are in {out}.\n"
    assert sorted(path.name for path in out.iterdir()) == ["contrast-2.npz", "contrast-5.npz", "fog-2.npz", "fog-5.npz"]
    with np.load(out / "fog-5.npz") as found:
        np.testing.assert_array_equal(found["X"], corrupt(IMAGES, "fog", 5))
        np.testing.assert_array_equal(found["y"], np.arange(4))


def test_a_folder_of_images_becomes_folders_with_the_same_names(desk, photos):
    out = desk.folder / "corrupted"
    assert desk.run("corrupt", photos, "--name", "snow", "--severity", "3", "--seed", "1", "--out", out).code == 0
    expected = corrupt(IMAGES, "snow", 3, seed=1)
    for index, place in enumerate(["cat/0.png", "cat/1.png", "dog/2.png", "dog/3.png"]):
        np.testing.assert_array_equal(np.asarray(Image.open(out / "snow-3" / place)), expected[index])


def test_all_means_the_fifteen_of_the_benchmark_and_a_sheet_shows_them(desk, array):
    out = desk.folder / "corrupted"
    outcome = desk.run("corrupt", array, "--out", out, "--severity", "1", "--sheet", "--json", "--quiet")
    found = json.loads(outcome.out)
    assert tuple(found["corruptions"]) == COMMON_NAMES
    assert found["written"] == [*(f"{name}-1.npz" for name in COMMON_NAMES), "contact_sheet.png"]
    with Image.open(out / "contact_sheet.png") as sheet:
        assert sheet.width > 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", "fogg"], "Did you mean 'fog'"),
        (["--severity", "6"], "Severity must be 1, 2, 3, 4 or 5"),
        (["--processes", "0"], "n_processes must be"),
    ],
)
def test_bad_options_are_said_in_one_sentence_and_nothing_is_written(desk, array, options, said):
    outcome = desk.run("corrupt", array, "--out", desk.folder / "corrupted", *options)
    assert outcome.code == 2
    assert said in outcome.err
    assert not (desk.folder / "corrupted").exists()


def test_a_table_is_no_image(desk):
    outcome = desk.run("corrupt", desk.train, "--out", desk.folder / "corrupted")
    assert outcome.code == 2
    assert outcome.out == ""


def test_a_folder_that_exists_is_not_touched(desk, array):
    outcome = desk.run("corrupt", array, "--out", desk.folder)
    assert outcome.code == 2
    assert "exists already" in outcome.err

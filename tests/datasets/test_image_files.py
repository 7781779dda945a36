"""Folders of images: labels from names, one size and mode for all, and what is said when that fails."""

import re

import numpy as np
import pytest
from PIL import Image

from nu_ensembles.datasets import read_table
from nu_ensembles.errors import DamagedFileError, InputError


@pytest.fixture
def folder(tmp_path):
    """Makes a folder from {relative path: pixels, bytes, or an image}."""

    def make(files):
        root = tmp_path / "photos"
        root.mkdir()
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                image = content if isinstance(content, Image.Image) else Image.fromarray(content)
                image.save(path)
        return root

    return make


def grey(level, height=2, width=3):
    return np.full((height, width), level, np.uint8)


def colour(*levels):
    return np.full((2, 3, 3), levels, np.uint8)


def test_sub_folder_names_are_the_labels_and_rows_are_sorted_by_name(folder):
    table = read_table(folder({"dog/b.png": grey(3), "cat/z.png": grey(2), "cat/deep/a.BMP": grey(1)}))
    assert table.row_names == ("cat/deep/a.BMP", "cat/z.png", "dog/b.png")
    assert table.y is not None
    assert table.y.tolist() == ["cat", "cat", "dog"]
    assert table.X[:, 0, 0, 0].tolist() == [1, 2, 3]
    assert (table.X.shape, table.X.dtype, table.kind) == ((3, 2, 3, 1), np.uint8, "images")
    assert table.feature_names is None


def test_a_flat_folder_is_unlabelled_and_other_files_are_passed_over(folder):
    table = read_table(folder({"a.png": grey(1), "b.png": grey(2), "notes.txt": b"", "._c.png": b"junk"}))
    assert table.y is None
    assert table.row_names == ("a.png", "b.png")


def test_hidden_folders_are_no_classes(folder):
    y = read_table(folder({"cat/a.png": grey(1), ".cache/b.png": grey(2)})).y
    assert y is not None
    assert y.tolist() == ["cat"]


@pytest.mark.parametrize("ending", ["png", "jpg", "jpeg", "webp", "bmp", "PNG"])
def test_every_kind_of_image_is_read(folder, ending):
    X = read_table(folder({f"a.{ending}": colour(200, 200, 200)})).X
    assert X.shape == (1, 2, 3, 3)
    assert np.abs(X.astype(int) - 200).max() <= 2


def test_one_colour_image_makes_all_of_them_colour(folder):
    X = read_table(folder({"a.png": grey(7), "b.png": colour(1, 2, 3)})).X
    assert X[:, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]


def test_the_number_of_channels_can_be_asked_for(folder):
    root = folder({"a.png": grey(7), "b.png": colour(9, 9, 9)})
    assert read_table(root, channels=1).X[:, 0, 0].tolist() == [[7], [9]]
    assert read_table(root, channels=3).X[:, 0, 0].tolist() == [[7, 7, 7], [9, 9, 9]]


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGB", 3), ("RGBA", 3)])
def test_every_8_bit_mode_is_converted(folder, mode, channels):
    image = Image.new("RGBA", (3, 2), (255, 255, 255, 255)).convert(mode)
    X = read_table(folder({"a.png": image})).X
    assert X.shape == (1, 2, 3, channels)
    assert (X == 255).all()


def test_images_are_resized_to_the_size_asked_for_height_first(folder):
    X = read_table(folder({"a.png": grey(5, 2, 3), "b.png": grey(6, 9, 4)}), image_size=(4, 6)).X
    assert X.shape == (2, 4, 6, 1)
    assert X.reshape(2, -1).tolist() == [[5] * 24, [6] * 24]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_resizing_averages_pixels_in_every_mode(folder, mode):
    halves = Image.fromarray(np.repeat([[0, 255]], 8, axis=0).astype(np.uint8)).convert(mode)
    X = read_table(folder({"a.png": halves}), image_size=(1, 1)).X
    assert np.abs(X.astype(int) - 128).max() <= 1


def test_photographs_are_turned_upright(folder):
    photo = Image.fromarray(np.array([[0, 255]], np.uint8))
    root = folder({})
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    photo.save(root / "a.png", exif=exif)
    assert read_table(root).X[..., 0].tolist() == [[[0], [255]]]


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "FOLDER holds no images: give a folder with .png, .jpg, .jpeg, .webp, .bmp files"),
        ({"readme.txt": b"", "cat/readme.txt": b""}, {}, "FOLDER holds no images"),
        ({"a.png": grey(1)}, {"target": "y"}, "FOLDER has no sub-folders, whose names would be the labels"),
        ({"a.png": grey(1), "cat/b.png": grey(1)}, {}, "holds images beside sub-folders (a.png is one)"),
        ({"cat/b.png": grey(1), "dog/x.txt": b""}, {}, "The class folder FOLDER/dog holds no images"),
        (
            {"a.png": grey(1), "b.png": grey(1, 5, 4)},
            {},
            "b.png is 5×4 pixels but FOLDER/a.png is 2×3: set image_size=(height, width) to resize",
        ),
        ({"a.png": np.zeros((2, 2), np.uint16)}, {}, "The image FOLDER/a.png has more than 8 bits a channel"),
        (
            {"a.png": grey(1)},
            {"image_size": (8,)},
            "image_size must be a pair of values (a whole number, a whole number) or None, not (8,)",
        ),
        (
            {"a.png": grey(1)},
            {"image_size": (0, 8)},
            "image_size must be (height, width) in pixels, not (0, 8)",
        ),
        ({"a.png": grey(1)}, {"channels": 2}, "channels must be 1 (grey) or 3 (colour), not 2"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(folder, files, options, message):
    root = folder(files)
    with pytest.raises(InputError, match=re.escape(message.replace("FOLDER", str(root)))):
        read_table(root, **options)


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp"])
def test_an_image_cut_off_is_named(folder, ending):
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    root = folder({f"cat/a.{ending}": noise, f"cat/b.{ending}": noise})
    damaged = root / "cat" / f"b.{ending}"
    whole = damaged.read_bytes()
    for end in (0, 3, len(whole) // 2):
        damaged.write_bytes(whole[:end])
        with pytest.raises(DamagedFileError, match=rf"The image .*b\.{ending} is unreadable .*: replace or remove it"):
            read_table(root)

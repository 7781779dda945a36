"""Reads image files: folders with a sub-folder for each class, flat folders, and encoded images in memory.

All images of a set get one size and one mode: grey when every image is grey, else colour. Transparency is
dropped, and photographs are turned the way their camera was held.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.datasets.table import ReadOptions, Table
from nu_ensembles.errors import DamagedFileError, InputError

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
# Of one image, which a file of some hundred kilobytes may claim to have.
MOST_PIXELS = 1 << 26
_GREY_MODES = ("1", "L", "LA")
_DEEP_MODES = ("I", "F")


def read_image_folder(folder: Path, options: ReadOptions) -> Table:
    """Reads a folder; the names of its sub-folders are the labels, and without any there are none."""
    loose = _images_in(folder.iterdir())
    classes = {
        child.name: _images_in(child.rglob("*"))
        for child in sorted(folder.iterdir())
        if child.is_dir() and not child.name.startswith(".")
    }
    files = loose + [file for found in classes.values() for file in found]
    if not files:
        raise InputError(f"{folder} holds no images: give a folder with {', '.join(IMAGE_ENDINGS)} files.")
    if not classes and options.target is not None:
        raise InputError(f"{folder} has no sub-folders, whose names would be the labels: put each class into its own.")
    if classes and loose:
        raise InputError(
            f"{folder} holds images beside sub-folders ({loose[0].name} is one): move each into its class."
        )
    empty = [name for name, found in classes.items() if not found]
    if empty:
        raise InputError(f"The class folder {folder / empty[0]} holds no images: fill it or remove it.")
    X = decode_images([(str(file), file) for file in files], options.image_size, options.channels)
    labels = [name for name, found in classes.items() for _ in found]
    row_names = tuple(file.relative_to(folder).as_posix() for file in files)
    return Table(X, np.array(labels, dtype=np.str_) if classes else None, None, "images", row_names)


def decode_images(
    files: Sequence[tuple[str, Path | bytes]], size: tuple[int, int] | None, channels: int | None
) -> np.ndarray:
    """Decodes images into one array.

    Args:
      files: for each image its name in errors, and its path or its encoded bytes; at least one.
      size: (height, width) to resize to; `None` requires that all have one size.
      channels: 1 for grey or 3 for colour; `None` for 3 unless all are grey.

    Returns:
      uint8 `[N, height, width, channels]`.
    """
    first = _decoded(*files[0], size)
    # One array from the start: a list of images, stacked at the end, would need the memory twice.
    images = np.empty((len(files), first.height, first.width, channels or 3), np.uint8)
    all_grey = True
    for index, (name, source) in enumerate(files):
        image = _decoded(name, source, size)
        if image.size != first.size:
            raise InputError(
                f"{name} is {image.height}×{image.width} pixels but {files[0][0]} is "
                f"{first.height}×{first.width}: set image_size=(height, width) to resize all images."
            )
        all_grey = all_grey and image.mode == "L"
        pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
        images[index] = pixels.reshape(images.shape[1:])
    return images[..., :1].copy() if channels is None and all_grey else images


def _images_in(paths: Iterable[Path]) -> list[Path]:
    # Hidden files are left by file managers, e.g. "._cat.jpg" with no image inside.
    return sorted(p for p in paths if p.suffix.lower() in IMAGE_ENDINGS and p.name[0] != "." and p.is_file())


def _decoded(name: str, source: Path | bytes, size: tuple[int, int] | None) -> Image:
    """The image in mode L (grey) or RGB, upright, and resized where a size is given."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            if image.width * image.height > MOST_PIXELS:
                raise InputError(f"The image {name} has {image.width}×{image.height} pixels: make it smaller first.")
            image.load()
            upright = ImageOps.exif_transpose(image)
    except InputError:
        raise
    # Pillow's decoders raise anything from SyntaxError to struct.error on damaged input.
    except Exception as error:
        raise DamagedFileError(
            f"The image {name} is unreadable (damaged, cut off, or of another type): replace or remove it."
        ) from error
    if upright.mode.startswith(_DEEP_MODES):
        raise InputError(f"The image {name} has more than 8 bits a channel: convert it to 8 bits.")
    plain = _grey_or_colour(upright)
    if size is None:
        return plain
    height, width = size
    return plain.resize((width, height), Image.Resampling.BILINEAR)


def _grey_or_colour(image: Image) -> Image:
    """Mode L or RGB; before any resizing, which would not interpolate palettes and black-and-white images."""
    if image.mode in _GREY_MODES:
        return image.convert("L")
    # Pillow wants palettes to pass through RGBA, because an entry may be transparent.
    return (image.convert("RGBA") if image.mode in ("P", "PA") else image).convert("RGB")

"""Images that were taken otherwise: digits and CIFAR-10 under common corruptions, digits against MNIST at 8×8.

The severities of the corruptions were made for 32×32 pixels. On the 8×8 digits they are applied to the pixels as they
are, which keeps their order from hardly visible to severe; but for those that move pixels by so many places (glass,
motion, elastic), which would leave nothing to read: these act on the image enlarged twice, whose blocks of four are
then averaged. A support vector machine trained on 500 clean digits (.98) reads between .98 (JPEG, noise) and .37
(contrast, severity 5) of the corrupted ones. Elastic transforms grow weaker with their number, as published.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from nu_ensembles.corruptions import corrupt
from nu_ensembles.datasets import load_cifar10, load_digits
from nu_ensembles.errors import InputError
from nu_ensembles_studies.shifts.drawing import Shifted, TwoPlaces

MOVE_PIXELS = ("glass_blur", "motion_blur", "elastic_transform")
MNIST_FILE = "mnist-5k.npz"
SIDE = 8
# Below this level a pixel of MNIST is paper.
INK = 64


def digit_images() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits as bytes: uint8 `[1797, 8, 8, 1]` over the whole range, and labels."""
    images, labels = load_digits(images=True)
    return np.round(images.astype(np.float64) * (255 / 16)).astype(np.uint8), labels


def corrupt_small(images: np.ndarray, name: str, severity: int, seed: int) -> np.ndarray:
    """Corrupted images of 8×8 pixels; see above for what is done about their size."""
    if name not in MOVE_PIXELS:
        return corrupt(images, name, severity, seed)
    large = corrupt(images.repeat(2, axis=1).repeat(2, axis=2), name, severity, seed)
    n, height, width, channels = images.shape
    return np.round(large.reshape(n, height, 2, width, 2, channels).mean(axis=(2, 4))).astype(np.uint8)


def corrupted_digits(name: str, severity: int, seed: int, n_labelled: int) -> Shifted:
    """Labels on clean digits; the deployment's are corrupted."""
    images, labels = digit_images()
    rng = np.random.default_rng([seed, 33])
    deployed = rng.permutation(len(images)) % 2 == 1
    images[deployed] = corrupt_small(images[deployed], name, severity, seed)
    return TwoPlaces(images, labels, deployed).draw(rng, n_labelled)


def digits_and_mnist(to_mnist: bool, seed: int, n_labelled: int, folder: Path | None) -> Shifted:
    """Labels on scikit-learn's digits and a deployment on MNIST's, or the other way round."""
    both = [digit_images(), small_mnist(folder)]
    images, labels = (np.concatenate(each) for each in zip(*both, strict=True))
    of_mnist = np.repeat([False, True], [len(images) for images, _ in both])
    rng = np.random.default_rng([seed, 34])
    return TwoPlaces(images, labels, of_mnist == to_mnist).draw(rng, n_labelled)


@functools.lru_cache(maxsize=1)
def small_mnist(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """MNIST's digits cropped to their ink and averaged down to uint8 `[5000, 8, 8, 1]`, and labels."""
    from PIL import Image

    file = None if folder is None else folder / MNIST_FILE
    if file is None or not file.is_file():
        raise InputError(f"MNIST is read from {MNIST_FILE} in the folder that NU_ENSEMBLES_DATA names; put it there.")
    with np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    small = np.zeros((len(images), SIDE, SIDE, 1), np.uint8)
    for number, image in enumerate(images):
        rows, columns = (np.flatnonzero((image > INK).any(axis=axis)) for axis in (1, 0))
        cropped = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        small[number, ..., 0] = np.asarray(Image.fromarray(cropped).resize((SIDE, SIDE), Image.Resampling.BOX))
    return small, labels.astype(np.int64)


def corrupted_cifar(name: str, severity: int, seed: int, n_labelled: int, folder: Path | None) -> Shifted:
    """Labels on clean training images of CIFAR-10; the deployment is corrupted test images."""
    found = load_cifar10(folder, may_download=False, verbose=0)
    rng = np.random.default_rng([seed, 35])
    sizes = 2 * n_labelled + 1000, 2000
    train, test = (
        rng.choice(n, size, replace=False)
        for n, size in zip((len(found.train_images), len(found.test_images)), sizes, strict=True)
    )
    foreign = corrupt(found.test_images[test], name, severity, seed)
    images = np.concatenate([found.train_images[train], foreign])
    labels = np.concatenate([found.train_labels[train], found.test_labels[test]])
    return TwoPlaces(images, labels, np.repeat([False, True], sizes)).draw(rng, n_labelled)

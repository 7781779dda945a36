"""Flip and crop against a slow loop that reads like the definition."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine.augmentation import FlipAndCrop, augmentation_of
from nu_ensembles.errors import InputError

IMAGES = np.arange(1, 1 + 64 * 5 * 6 * 2, dtype=np.float32).reshape(64, 5, 6, 2)


def possible_crops(image: np.ndarray, padding: int, n_offsets: int) -> dict[bytes, tuple[bool, int, int]]:
    """Every outcome for one image, each with (flipped, top, left)."""
    outcomes = {}
    height, width, _ = image.shape
    for flipped in (False, True):
        source = image[:, ::-1] if flipped else image
        padded = np.zeros((height + 2 * padding, width + 2 * padding, image.shape[2]), image.dtype)
        padded[padding : padding + height, padding : padding + width] = source
        for top in range(n_offsets):
            for left in range(n_offsets):
                outcomes[padded[top : top + height, left : left + width].tobytes()] = (flipped, top, left)
    return outcomes


def draws(augment: FlipAndCrop, n_offsets: int) -> list[tuple[bool, int, int]]:
    augmented = np.asarray(jax.jit(augment)(jax.random.key(0), jnp.asarray(IMAGES)))
    assert augmented.shape == IMAGES.shape
    return [
        possible_crops(image, augment.padding, n_offsets)[result.tobytes()]
        for image, result in zip(IMAGES, augmented, strict=True)
    ]


@pytest.mark.parametrize(("published", "n_offsets"), [(False, 5), (True, 4)])
def test_images_are_flipped_padded_and_cropped_with_offsets_of_the_range(published: bool, n_offsets: int) -> None:
    found = draws(FlipAndCrop(padding=2, published_offsets=published), n_offsets)
    flips, tops, lefts = (np.array(each) for each in zip(*found, strict=True))
    assert set(tops) == set(lefts) == set(range(n_offsets))
    assert 16 < flips.sum() < 48
    assert len(set(found)) > 20  # drawn image by image, rows apart from columns


def test_64_bit_images_are_cropped_where_32_bit_ones_are() -> None:
    augment = FlipAndCrop(padding=2)
    narrow = augment(jax.random.key(0), jnp.asarray(IMAGES))
    with jax.enable_x64(True):
        wide = augment(jax.random.key(0), jnp.asarray(IMAGES, jnp.float64))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, narrow)


def test_every_combination_of_flip_and_offsets_is_as_likely_as_any_other() -> None:
    augment, n_images = FlipAndCrop(padding=1), 18_000
    one = np.arange(1, 7, dtype=np.float32).reshape(2, 3, 1)
    outcomes = possible_crops(one, 1, 3)
    assert len(outcomes) == 18
    found = np.asarray(jax.jit(augment)(jax.random.key(1), jnp.asarray(np.tile(one, (n_images, 1, 1, 1)))))
    counts = Counter(outcomes[image.tobytes()] for image in found)
    expected = n_images / 18
    # Chi-squared with 17 degrees of freedom is larger than this once in ten thousand keys.
    assert sum((counts[outcome] - expected) ** 2 / expected for outcome in outcomes.values()) < 46


def test_the_named_augmentation_is_the_published_padding_with_all_offsets() -> None:
    assert augmentation_of("flip_crop") == FlipAndCrop(padding=4, published_offsets=False)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown augmentation 'flipcrop'. Did you mean 'flip_crop'"):
        augmentation_of("flipcrop")


def test_grey_images_need_no_axis_of_channels() -> None:
    images = jnp.arange(2 * 8 * 8.0).reshape(2, 8, 8)
    key = jax.random.key(0)
    found = FlipAndCrop()(key, images)
    np.testing.assert_array_equal(found, FlipAndCrop()(key, images[..., None])[..., 0])

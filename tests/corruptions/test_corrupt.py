"""`corrupt` takes any uint8 images, depends on nothing but its arguments, and refuses the rest in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nu_ensembles.corruptions as corruptions
from nu_ensembles.corruptions import COMMON_NAMES, EXTRA_NAMES, NAMES, corrupt
from nu_ensembles.corruptions.suite import CORRUPTIONS
from nu_ensembles.errors import InputError


def some_images(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_there_are_fifteen_common_corruptions_and_four_extra_ones_in_the_published_order() -> None:
    assert NAMES == (*COMMON_NAMES, *EXTRA_NAMES) == tuple(CORRUPTIONS)
    assert (len(COMMON_NAMES), len(EXTRA_NAMES)) == (15, 4)
    assert NAMES[0] == "gaussian_noise"
    assert EXTRA_NAMES == ("speckle_noise", "gaussian_blur", "spatter", "saturate")
    assert set(corruptions.__all__) >= {"NAMES", "EXTRA_NAMES", "corrupt", "corrupt_all"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(2, 32, 32, 3), (2, 28, 28, 1), (1, 5, 9, 3), (1, 40, 17, 1), (1, 1, 1, 3)])
def test_every_size_grey_or_colour_keeps_its_shape_and_the_input_stays_as_it_was(name: str, shape: tuple) -> None:
    images = some_images(*shape)
    before = images.copy()
    for severity in (1, 3, 5):
        corrupted = corrupt(images, name, severity)
        assert corrupted.shape == shape
        assert corrupted.dtype == np.uint8
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("name", NAMES)
def test_black_and_white_images_raise_no_warning(name: str) -> None:
    flat = np.stack([np.zeros((16, 16, 3), np.uint8), np.full((16, 16, 3), 255, np.uint8)])
    for severity in range(1, 6):
        corrupt(flat, name, severity)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_can_be_cut_anywhere_without_changing_an_image(name: str) -> None:
    images = some_images(5, 16, 16, 3)
    whole = corrupt(images, name, 4, seed=7)
    parts = [corrupt(images[:2], name, 4, seed=7), corrupt(images[2:], name, 4, seed=7, first=2)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_repeats_and_random_corruptions_change_with_seed_and_image(name: str) -> None:
    images = np.repeat(some_images(1, 32, 32, 3), 4, axis=0)
    first, again, other = corrupt(images, name, 5), corrupt(images, name, 5), corrupt(images, name, 5, seed=1)
    np.testing.assert_array_equal(first, again)
    is_random = CORRUPTIONS[name].draw is not None
    assert (first != other).any() == is_random
    assert (first[0] != first[1:]).any() == is_random


@settings(max_examples=25)
@given(st.sampled_from(NAMES), st.integers(1, 5), st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 3]))
def test_no_shape_fails(name: str, severity: int, height: int, width: int, channels: int) -> None:
    images = some_images(1, height, width, channels, seed=height)
    assert corrupt(images, name, severity).shape == images.shape


def test_no_images_give_no_images() -> None:
    assert corrupt(np.zeros((0, 8, 8, 3), np.uint8), "fog").shape == (0, 8, 8, 3)


def test_contrast_draws_values_towards_the_mean() -> None:
    image = np.array([0, 100, 200], np.uint8).reshape(1, 1, 3, 1)
    assert corrupt(image, "contrast", severity=2).ravel().tolist() == [50, 100, 150]


def test_brightness_raises_the_largest_channel_and_keeps_the_hue() -> None:
    pixel = np.array([[[[100, 50, 0]]]], np.uint8)
    # V = 100/255 rises by .3; all channels scale alike.
    assert corrupt(pixel, "brightness", severity=5).ravel().tolist() == [176, 88, 0]


def test_saturation_of_a_grey_pixel_turns_red_as_published_and_grey_images_stay() -> None:
    pixel = np.full((1, 1, 1, 3), 200, np.uint8)
    assert corrupt(pixel, "saturate", severity=4).ravel().tolist() == [200, 180, 180]
    np.testing.assert_array_equal(corrupt(pixel[..., :1], "saturate", severity=4), pixel[..., :1])


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.zeros((1, 8, 8, 3)), "multiply by 255"),
        (np.zeros((1, 8, 8, 3), np.int64), "dtype int64"),
        (np.zeros((8, 8, 3), np.uint8), r"images\[None\]"),
        (np.zeros((1, 3, 8, 8), np.uint8), "channels come last"),
        (np.zeros((1, 8, 8, 4), np.uint8), "4 channels"),
        (np.zeros((1, 0, 8, 3), np.uint8), "at least one pixel"),
    ],
)
def test_other_types_and_shapes_are_refused(images: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        corrupt(images, "fog")


def test_an_unknown_corruption_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'gaussian_blur'"):
        corrupt(some_images(1, 8, 8, 3), "gausian_blur")


@pytest.mark.parametrize("severity", [0, 6, 2.5, True, "3"])
def test_a_severity_outside_one_to_five_is_refused(severity: object) -> None:
    with pytest.raises(InputError, match=r"1, 2, 3, 4 or 5|must be a whole number"):
        corrupt(some_images(1, 8, 8, 3), "fog", severity)  # pyright: ignore[reportArgumentType]


def test_a_bad_seed_first_or_number_of_sources_is_refused() -> None:
    images = some_images(2, 8, 8, 3)
    with pytest.raises(InputError, match="seed"):
        corrupt(images, "fog", seed=-1)
    with pytest.raises(InputError, match="first"):
        corrupt(images, "fog", first=-1)
    with pytest.raises(InputError, match="1 random sources for 2 images"):
        corrupt(images, "fog", sources=[np.random.default_rng(0)])

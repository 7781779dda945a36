"""The operations behind the corruptions, on inputs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.corruptions.drops import chamfer_distance, edges, equalise
from nu_ensembles.corruptions.filters import correlate, disk_kernel, mirror, motion, zoom, zoom_matrix
from nu_ensembles.corruptions.frost_texture import N_TEXTURES, TEXTURE_SIZE, crop_of, texture
from nu_ensembles.corruptions.hsv import from_hsv, to_hsv
from nu_ensembles.corruptions.levels import grey, to_unit
from nu_ensembles.corruptions.plasma import draw_plasma, map_size, plasma


def test_mirrored_indices_do_not_repeat_the_edge() -> None:
    assert mirror(np.arange(-3, 7), 4).tolist() == [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    assert mirror(np.arange(-2, 3), 1).tolist() == [0] * 5


def test_correlation_shifts_by_its_kernel() -> None:
    row = np.array([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
    assert correlate(row, np.array([[1.0, 0.0, 0.0]])).ravel().tolist() == [2, 1, 2]


def test_a_disk_smaller_than_a_pixel_is_its_softened_centre() -> None:
    kernel = disk_kernel(0.3, 0.4)
    assert kernel.shape == (3, 3)
    assert kernel.sum() == pytest.approx(1, abs=1e-6)
    assert kernel[1, 1] == kernel.max()


def test_motion_at_zero_degrees_takes_from_the_right_with_gaussian_weights() -> None:
    line = np.zeros((1, 1, 5, 1), np.uint8)
    line[0, 0, 3] = 255
    smeared = motion(line, np.array([0.0]), radius=1, deviation=1.0).ravel()
    weights = np.exp(-(np.arange(3) ** 2) / 2) / np.exp(-(np.arange(3) ** 2) / 2).sum()
    assert smeared.tolist() == [0, int(255 * weights[2]), int(255 * weights[1]), int(255 * weights[0]), 0]


def test_a_zoom_by_one_changes_nothing_and_rows_of_a_zoom_sum_to_one() -> None:
    layer = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(zoom(layer, 1.0), layer)
    np.testing.assert_allclose(zoom_matrix(32, 1.25).sum(axis=1), 1)


def test_hue_saturation_and_value_come_back_as_the_same_colours() -> None:
    colours = np.random.default_rng(0).uniform(size=(1, 4, 5, 3))
    np.testing.assert_allclose(from_hsv(*to_hsv(colours), 3), colours, atol=1e-12)
    hue, saturation, value = to_hsv(np.array([0.0, 1.0, 0.0]).reshape(1, 1, 1, 3))
    assert (hue.item(), saturation.item(), value.item()) == (pytest.approx(1 / 3), 1.0, 1.0)


def test_luminance_in_float32_adds_red_last_as_the_published_levels_of_snow_need() -> None:
    pixel = np.array([2, 100, 50], np.uint8).reshape(1, 1, 1, 3)
    # Red first would give 0.25489414.
    assert grey(to_unit(pixel, np.float32)).item() == np.float32(0.2548941)


def test_plasma_fills_the_unit_interval_and_covers_any_length() -> None:
    assert [map_size(n) for n in (1, 2, 3, 32, 33)] == [2, 2, 4, 32, 64]
    clouds = plasma(draw_plasma(np.random.RandomState(0), 20, 2.0)[None], 20)
    assert clouds.shape == (1, 32, 32)
    assert (clouds.min(), clouds.max()) == (0, 1)


def test_edges_outline_a_square() -> None:
    square = np.zeros((1, 9, 9), np.uint8)
    square[0, 3:6, 3:6] = 200
    found = edges(square)[0]
    assert found.any()
    assert not found[4, 4]
    assert not found[[0, -1]].any()
    assert not edges(np.full((1, 9, 9), 7, np.uint8)).any()


def test_chamfer_distances_count_straight_diagonal_and_knight_moves() -> None:
    target = np.zeros((1, 5, 5), bool)
    target[0, 0, 0] = True
    distance = chamfer_distance(target)[0]
    expected = {(0, 3): 3.0, (1, 1): 1.4, (1, 2): 2.1969, (2, 1): 2.1969, (2, 2): 2.8, (1, 3): 3.1969}
    for place, steps in expected.items():
        assert distance[place] == pytest.approx(steps, abs=1e-4)


def test_equalisation_spreads_levels_and_leaves_a_flat_map() -> None:
    levels = np.array([[[10, 10], [20, 30]]], np.uint8)
    assert equalise(levels).tolist() == [[[0, 0], [128, 255]]]
    assert equalise(np.full((1, 2, 2), 9, np.uint8)).tolist() == [[[9, 9], [9, 9]]]


def test_frost_textures_have_no_seam_and_go_on_beyond_their_border() -> None:
    for which in range(N_TEXTURES):
        ice = texture(which)
        assert ice.shape == (TEXTURE_SIZE, TEXTURE_SIZE, 3)
        assert ice.min() >= 0
        assert ice.max() <= 255
        inside = np.abs(np.diff(ice, axis=1)).mean()
        assert np.abs(ice[:, 0] - ice[:, -1]).mean() < 1.5 * inside
    piece = crop_of(0, 250, 3, 10, 300, 1)
    assert piece.shape == (10, 300, 1)
    np.testing.assert_array_equal(piece[:, 0], piece[:, TEXTURE_SIZE])

"""The contact sheet shows each image clean and under every corruption, in the order asked for."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.corruptions import corrupt
from nu_ensembles.errors import InputError
from nu_ensembles.report.contact_sheet import contact_sheet, sheet_pixels
from nu_ensembles.report.svg import png_bytes

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)


def test_tiles_stand_by_image_and_severity_in_a_row_for_each_corruption() -> None:
    pixels = sheet_pixels(IMAGES, ["fog", "contrast"], [1, 5])
    assert pixels.shape == (2 * (6 + 2), 6 * (8 + 2), 3)
    np.testing.assert_array_equal(pixels[:6, :8], IMAGES[0])
    # Second row, second image, severity 5: the sixth tile.
    np.testing.assert_array_equal(pixels[8:14, 50:58], corrupt(IMAGES, "contrast", 5)[1])
    assert (pixels[6:8] == 255).all()


def test_the_figure_names_corruptions_and_severities() -> None:
    ax = contact_sheet(IMAGES[:1, :, :, :1], ["motion_blur"], [2, 4])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["motion blur"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["clean", "2", "4"]
    assert png_bytes(ax, 50).startswith(b"\x89PNG")


def test_a_sheet_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one image"):
        contact_sheet(IMAGES[:0])

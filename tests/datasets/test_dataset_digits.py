import numpy as np

from nu_ensembles.datasets import load_digits


def test_digits_are_1797_rows_of_64_grey_levels_from_0_to_16():
    X, y = load_digits()
    assert X.shape == (1797, 64)
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (0, 16)
    assert y.dtype == np.int64
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_as_images_hold_the_same_pixels():
    images, labels = load_digits(images=True)
    X, y = load_digits()
    assert images.shape == (1797, 8, 8, 1)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images.reshape(1797, 64), X)
    np.testing.assert_array_equal(labels, y)

"""Standardisation over labelled and unlabelled rows together, and what reaches the network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nu_ensembles.errors import InputError
from nu_ensembles.problem.preprocessing import Standardisation, check_kind, network_rows


def test_mean_and_variance_are_those_of_all_parts_together() -> None:
    fitted = Standardisation.fit(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[4.0, 1.0]]))
    assert fitted.mean.tolist() == [2.0, 1.0]
    assert fitted.scale == pytest.approx([np.sqrt(8 / 3), 1.0])  # the second column is constant and is left alone
    assert fitted(np.array([[2.0, 1.0]])).tolist() == [[0.0, 0.0]]


@given(arrays(np.float64, (6, 3), elements=st.floats(-1e6, 1e6)))
def test_standardised_columns_have_mean_zero_and_variance_one_or_are_constant_or_mostly_zero(x: np.ndarray) -> None:
    scaled = Standardisation.fit(x)(x).astype(np.float64)
    assert np.isfinite(scaled).all()
    varied = (np.ptp(x, axis=0) > 1e-6 * (1 + np.abs(x).max())) & ((x == 0).sum(axis=0) <= 3)
    np.testing.assert_allclose(scaled[:, varied].mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled[:, varied].std(axis=0), 1, atol=1e-4)


def test_a_large_offset_does_not_swallow_small_differences() -> None:
    x = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    np.testing.assert_allclose(Standardisation.fit(x)(x).ravel(), [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)


def test_a_constant_column_whose_mean_is_rounded_is_still_constant() -> None:
    x = np.full((7, 1), 0.1)
    assert Standardisation.fit(x).scale.tolist() == [1.0]


def test_a_column_that_is_mostly_zero_keeps_its_zeros_and_no_value_comes_out_larger_than_two() -> None:
    x = np.zeros((10, 4))
    x[:, 0], x[0, 1], x[:4, 2] = [0, 0, 0, 0, 1, 1, 1, 1, 1, 1], 3, 5
    fitted = Standardisation.fit(x)
    # Six ones of ten are centred; one 3, and four 5, become 2; a column of nothing else is left alone.
    assert fitted.mean == pytest.approx([0.6, 0, 0, 0])
    assert fitted.scale == pytest.approx([np.sqrt(0.24), 1.5, 2.5, 1])
    # The deviation is larger than half of what is beside zero where that varies a lot.
    x[:4, 2] = [-9, 9, 1, 1]
    assert Standardisation.fit(x).scale[2] == pytest.approx(x[:, 2].std())


def test_columns_may_stay_as_they_are() -> None:
    x = np.array([[0.0, 1.0], [4.0, 1.0], [2.0, 0.0]])
    fitted = Standardisation.fit(x, as_they_are=np.array([False, True]))
    assert fitted(x)[:, 1].tolist() == [1, 1, 0]
    assert fitted.mean.tolist() == [2, 0]


def test_scalings_are_the_same_when_their_numbers_are() -> None:
    one, other = (Standardisation.fit(np.array([[0.0], [spread]])) for spread in (1.0, 2.0))
    assert one.same_as(Standardisation(one.mean.copy(), one.scale.copy()))
    assert not one.same_as(other)
    assert not one.same_as(None)


def test_bytes_go_to_the_device_as_they_are_unless_standardised() -> None:
    pixels = np.array([[0, 255], [2, 255]], np.uint8)
    assert network_rows(pixels, None) is pixels
    assert network_rows(pixels, Standardisation.fit(pixels)).tolist() == [[-1, 0], [1, 0]]


def test_numbers_go_as_float32_and_those_that_do_not_fit_are_refused() -> None:
    assert network_rows(np.array([[0.5]]), None).dtype == np.float32
    with pytest.raises(InputError, match="beyond float32's range; rescale them, or standardise them"):
        network_rows(np.array([[1e39]]), None)
    huge = np.array([[1e39], [3e39]])
    assert network_rows(huge, Standardisation.fit(huge)).ravel() == pytest.approx([-1, 1])


@pytest.mark.parametrize(("dtype", "pixels"), [(np.uint8, False), (np.float32, True)])
def test_bytes_and_other_numbers_are_never_mixed(dtype: type, pixels: bool) -> None:
    with pytest.raises(
        InputError, match=r"U holds .* bytes are taken for pixels and divided by 255, so both must be uint8"
    ):
        check_kind(np.zeros((1, 1), dtype), pixels, "U")
    check_kind(np.zeros((1, 1), dtype), not pixels, "U")

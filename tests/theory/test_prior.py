"""ln A: sums over every floating-point number, against enumeration."""

import numpy as np
import pytest

from nu_ensembles import theory
from nu_ensembles.errors import InputError
from nu_ensembles.theory.prior import FORMATS, equally_spaced_sum, gaussian_sum


def test_every_float16_is_counted_once():
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    assert gaussian_sum(FORMATS["float16"]) == pytest.approx(np.exp(-(numbers**2)).sum(), rel=1e-12)


def test_every_bfloat16_is_counted_once():
    bits = np.arange(2**16, dtype=np.uint32)
    exponent, mantissa = (bits >> 7) & 0xFF, (bits & 0x7F).astype(np.float64)
    size = np.where(exponent == 0, mantissa * 2.0**-133, np.exp2(exponent - 127.0) * (1 + mantissa / 128))
    numbers = np.unique(np.where(bits >> 15, -size, size)[exponent < 255])
    assert len(numbers) == 2 * 255 * 128 - 1
    with np.errstate(over="ignore"):
        assert gaussian_sum(FORMATS["bfloat16"]) == pytest.approx(np.exp(-(numbers**2)).sum(), rel=1e-9)


@pytest.mark.parametrize("exponent", [-14, -2, 0, 1])
def test_a_binade_of_float32_is_summed_to_rounding(exponent):
    start = 2.0**exponent
    numbers = start * (1.0 + np.arange(2**23) / 2**23)
    closed = equally_spaced_sum(np.array([start]), np.array([2 * start]), 23)[0]
    assert closed == pytest.approx(np.exp(-(numbers**2)).sum(), rel=1e-12)


@pytest.mark.parametrize(("precision", "nats"), [("float32", 21.476), ("bfloat16", 10.386), ("float16", 10.301)])
def test_a_parameter_costs_nearly_its_bits(precision, nats):
    assert theory.log_normaliser(1, precision) == pytest.approx(nats, abs=1e-3)
    assert theory.log_normaliser(1000, precision) == pytest.approx(1000 * nats, rel=1e-4)


def test_unknown_precision_and_no_parameters_are_refused():
    with pytest.raises(InputError, match="Did you mean 'float16'"):
        theory.log_normaliser(10, "float6")
    with pytest.raises(InputError, match="n_parameters"):
        theory.log_normaliser(0)

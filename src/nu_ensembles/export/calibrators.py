"""The fitted calibrators in JAX, for programs that carry one inside; NumPy's stand in `calibration/`, in float64.

Each takes probabilities `[N, C]`, or the members' `[K, N, C]` where the calibrator does, and gives `[N, C]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.calibration import FittedCalibrator
from nu_ensembles.errors import InputError

TINY = float(np.finfo(np.float32).tiny)


def log_probability(probs: Array) -> Array:
    """ln p, with zeros read as the smallest normal number."""
    return jnp.log(jnp.maximum(probs, TINY))


def scaled(probs: Array, temperature: float) -> Array:
    """p^(1/T), normalised."""
    return jax.nn.softmax(log_probability(probs) / temperature, axis=-1)


def normalised(probs: Array) -> Array:
    """Rows that sum to one; a row of zeros becomes uniform."""
    sums = jnp.sum(probs, axis=-1, keepdims=True)
    return jnp.where(sums > 0, probs / jnp.where(sums > 0, sums, 1.0), 1.0 / probs.shape[-1])


def calibrated(calibrator: FittedCalibrator, members: Array) -> Array:
    """What `calibrator.apply` makes of members' probabilities `[K, N, C]`."""
    if calibrator.name not in _APPLIED:
        raise InputError(
            f"The calibrator {calibrator.name!r} cannot be exported; export one without a calibrator: "
            "dataclasses.replace(ensemble, calibrator=None).export(…)."
        )
    members = normalised(members)
    given = members if calibrator.takes_members else jnp.mean(members, axis=0)
    return normalised(_APPLIED[calibrator.name](calibrator, given))


def _prepared(calibrator: Any, probs: Array) -> Array:
    share = calibrator.share
    return log_probability((1.0 - share) * scaled(probs, calibrator.temperature) + share / probs.shape[1])


def _smoothed_temperature(calibrator: Any, probs: Array) -> Array:
    return (1.0 - calibrator.share) * scaled(probs, calibrator.temperature) + calibrator.share / probs.shape[1]


def _member_temperature(calibrator: Any, members: Array) -> Array:
    pooled = jnp.mean(scaled(members, calibrator.inner), axis=0)
    return scaled(pooled, calibrator.outer)


def _vector_scaling(calibrator: Any, probs: Array) -> Array:
    scale, shift = _constants(calibrator.scale, calibrator.shift)
    return jax.nn.softmax(scale * _prepared(calibrator, probs) + shift, axis=1)


def _matrix_scaling(calibrator: Any, probs: Array) -> Array:
    matrix, shift = _constants(calibrator.matrix.T, calibrator.shift)
    return jax.nn.softmax(_prepared(calibrator, probs) @ matrix + shift, axis=1)


def _beta(calibrator: Any, probs: Array) -> Array:
    a, b, shift = _constants(calibrator.a, calibrator.b, calibrator.shift)
    # Summed up: near one the difference 1 - p has no digits.
    rest = probs @ (1.0 - jnp.eye(probs.shape[1], dtype=probs.dtype))
    z = a * log_probability(probs) - b * log_probability(rest) + shift
    # log of the logistic function, without overflow on either side.
    return jax.nn.softmax(jnp.minimum(z, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(z))), axis=1)


def _isotonic(calibrator: Any, probs: Array) -> Array:
    columns = []
    for number, (start, end) in enumerate(itertools.pairwise(calibrator.starts.astype(int))):
        points, values = _constants(calibrator.points[start:end], calibrator.values[start:end])
        columns.append(_interpolated(probs[:, number], points, values))
    found = jnp.stack(columns, axis=1)
    # A row that every class gave up keeps what it had.
    return jnp.where(jnp.sum(found, axis=1, keepdims=True) > 0, found, probs)


def _interpolated(x: Array, points: Array, values: Array) -> Array:
    """`np.interp`, by indicators of the piece that x is in: every runtime can compare and multiply."""
    if len(points) == 1:
        return jnp.full_like(x, float(values[0]))
    x = jnp.clip(x, points[0], points[-1])[:, None]
    width = jnp.where(points[1:] > points[:-1], points[1:] - points[:-1], 1.0)
    above = jnp.concatenate([points[1:-1], jnp.array([jnp.inf], points.dtype)])
    inside = ((x >= points[:-1]) | (jnp.arange(len(width)) == 0)) & (x < above)
    at = jnp.clip((x - points[:-1]) / width, 0.0, 1.0)
    piece = values[:-1] + at * (values[1:] - values[:-1])
    return jnp.sum(jnp.where(inside, piece, 0.0), axis=1)


def _constants(*arrays: np.ndarray) -> tuple[Array, ...]:
    return tuple(jnp.asarray(np.asarray(each, np.float32)) for each in arrays)


_APPLIED: dict[str, Callable[[Any, Array], Array]] = {
    "none": lambda _, probs: probs,
    "temperature": lambda calibrator, probs: scaled(probs, calibrator.temperature),
    "smoothed_temperature": _smoothed_temperature,
    "member_temperature": _member_temperature,
    "vector_scaling": _vector_scaling,
    "matrix_scaling": _matrix_scaling,
    "beta": _beta,
    "isotonic": _isotonic,
}

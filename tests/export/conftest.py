"""Small ensembles of every kind that is exported. What they have learnt does not matter, so nothing is trained."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu
from nu_ensembles.problem import Standardisation
from nu_ensembles.tables import TableEncoding

WORDS = np.array(["no", "yes"])


def untrained(model: nu.Model, row_shape: tuple[int, ...], **fields: Any) -> nu.Ensemble:
    """Three members as they begin, with outputs that differ."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = jax.vmap(lambda key: model.init(key, jnp.zeros((1, *row_shape))))(keys)
    params = jax.tree.map(lambda leaf: np.asarray(leaf) * np.float32(1.5), params)
    return nu.Ensemble(model, params, {}, WORDS, row_shape, **fields)


@pytest.fixture(scope="session")
def of_numbers() -> nu.Ensemble:
    scaling = Standardisation(np.full(5, 20.0), np.full(5, 3.0))
    return untrained(nu.models.mlp(2, hidden=(8,), ramps=True), (5,), standardisation=scaling)


@pytest.fixture(scope="session")
def of_a_table() -> nu.Ensemble:
    encoding, (x,) = TableEncoding.fit(mixed_table(48))
    scaling = Standardisation.fit(x, as_they_are=encoding.as_they_are)
    model = nu.models.mlp(2, hidden=(8,), ramps=True)
    return untrained(model, x.shape[1:], encoding=encoding, standardisation=scaling)


@pytest.fixture(scope="session")
def of_pixels() -> nu.Ensemble:
    return untrained(nu.models.lenet(2), (8, 8, 3), pixels=True)

"""What enters the last layer of trained networks, for methods that compute with it afterwards."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from nu_ensembles.engine.predict import row_batches
from nu_ensembles.engine.program import network_inputs
from nu_ensembles.models import Model, join_variables, logits_and_features


def lane_features(
    model: Model, dtype: str, params: Any, model_state: Any, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits `[R, N, C]` and features `[R, N, F]` of every lane in evaluation mode, lane after lane, in batches.

    Args:
      params, model_state: leaves `[R, …]`.
    """
    lanes = []
    for lane in range(jax.tree.leaves(params)[0].shape[0]):
        variables = join_variables(*jax.tree.map(lambda leaf, at=lane: leaf[at], (params, model_state)))
        parts = []
        for rows, part in row_batches(x):
            found = _logits_and_features(model, dtype, variables, jax.device_put(part))
            parts.append([np.asarray(each)[: rows.stop - rows.start] for each in found])
        lanes.append([np.concatenate(each) for each in zip(*parts, strict=True)])
    logits, features = (np.stack(each) for each in zip(*lanes, strict=True))
    return logits, features


@partial(jax.jit, static_argnames=("model", "dtype"))
def _logits_and_features(model: Model, dtype: str, variables: Any, x: Array) -> tuple[Array, Array]:
    return logits_and_features(model, variables, network_inputs(x, dtype), key=None, train=False)

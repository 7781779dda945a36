"""What an exported ensemble computes from network rows, in JAX: members, their calibrated mean, their disagreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.engine.predict import lane_probabilities, masked_probabilities, network_probabilities
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.export.calibrators import calibrated, log_probability, scaled
from nu_ensembles.export.forests import pooled
from nu_ensembles.export.source import Exportable

OUTPUTS = ("probabilities", "members", "uncertainty")


def check_outputs(outputs: str | Sequence[str]) -> tuple[str, ...]:
    """The outputs that are asked for, in the order of `OUTPUTS`."""
    asked = (outputs,) if isinstance(outputs, str) or not isinstance(outputs, Sequence) else tuple(outputs)
    for each in asked:
        if not isinstance(each, str) or each not in OUTPUTS:
            raise unknown_name("output", each, OUTPUTS)
    if not asked:
        raise InputError(f"Ask for at least one output: {', '.join(OUTPUTS)}.")
    return tuple(each for each in OUTPUTS if each in asked)


def answers(
    ensemble: Exportable, params: Any, model_state: Any, x: Array, outputs: Sequence[str], one_by_one: bool = False
) -> dict[str, Array]:
    """From network rows `[N, …]` (bytes, or scaled float32) to the outputs by their names.

    Args:
      params, model_state: the ensemble's, as constants or as arguments of a program.
      outputs: of `OUTPUTS`. "members" is `[N, K, C]`: rows come first in everything that leaves a program.
      one_by_one: write the members one after the other, for runtimes without convolutions of many networks.
    """
    members = _members(ensemble, params, model_state, x, one_by_one)
    found = {}
    if "probabilities" in outputs:
        calibrator, mean = ensemble.calibrator, jnp.mean(members, axis=0)
        if ensemble.companion is not None:
            mean = pooled(ensemble.companion, mean, x)
        if calibrator is not None:
            mean = calibrated(calibrator, members if calibrator.takes_members else mean[None])
        found["probabilities"] = mean if ensemble.temperature == 1 else scaled(mean, ensemble.temperature)
    if "members" in outputs:
        found["members"] = jnp.swapaxes(members, 0, 1)
    if "uncertainty" in outputs:
        found["uncertainty"] = disagreement(members)
    return found


def disagreement(members: Array) -> Array:
    """The mutual information of class and member in nats, `[K, N, C] -> [N]`: 0 where all members say the same.

    The entropy of the mean less the mean of the entropies, of what the members say before calibration.
    """
    mean = jnp.mean(members, axis=0)
    # As a mean of Kullback-Leibler divergences it has no difference of large numbers.
    return jnp.mean(jnp.sum(members * (log_probability(members) - log_probability(mean)), axis=-1), axis=0)


def _members(ensemble: Exportable, params: Any, model_state: Any, x: Array, one_by_one: bool) -> Array:
    if ensemble.mask_keys is not None:
        keys = jax.random.wrap_key_data(jnp.asarray(ensemble.mask_keys), impl="threefry2x32")
        lanes = [keys[at : at + 1] for at in range(len(ensemble.mask_keys))] if one_by_one else [keys]
        parts = [masked_probabilities(ensemble.model, "float32", params, model_state, each, x) for each in lanes]
        return jnp.concatenate(parts)
    if not one_by_one:
        return lane_probabilities(ensemble.model, "float32", params, model_state, x)
    n_networks = jax.tree.leaves(params)[0].shape[0]
    alone = []
    for at in range(n_networks):
        own, state = jax.tree.map(lambda leaf, at=at: leaf[at], (params, model_state))
        alone.append(network_probabilities(ensemble.model, "float32", own, state, x))
    return jnp.stack(alone)

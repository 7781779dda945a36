"""Temperature scaling: one number that softens or sharpens probabilities, fitted on validation data.

p_T is proportional to p^(1/T). With few labels the maximum-likelihood T is unreliable, so the default adds the prior
30·(log T)² to the summed NLL, which fades as labels come in. Reference: Guo, Pleiss, Sun & Weinberger (2017).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.inputs import Ints, check_labels, check_member_probs, mean_probability
from nu_ensembles.metrics.scores import label_probability
from nu_ensembles.metrics.weighting import Values

PRIOR = 30.0
"""Strength of the pull to T = 1: with few labels the temperature would follow the noise."""

LOG_T_LIMIT = np.log(100.0)
"""|log T| searched: beyond 1/100 … 100 the probabilities are one-hot or uniform anyway."""


LEAST_TEMPERATURE = 1e-300
"""Divided by less, logarithms overflow; |log T| of what is fitted is at most ln 100."""


class TemperatureScaling:
    """Fits T on validation predictions and applies it to others.

    `on="mean"` scales the ensemble's mean probability (pool, then calibrate), which can undo over- or
    under-confidence of the pool. `on="members"` gives each member its own temperature and leaves the
    averaging to the caller, which makes the pool of calibrated members under-confident when they disagree.

    Args:
      on: "mean" or "members".
      prior: strength of prior·(log T)², added to the summed NLL; 0 is maximum likelihood.

    Attributes:
      temperature_: after `fit`, a float for "mean", `[K]` for "members". Above 1 softens.
    """

    temperature_: float | NDArray[np.float64]

    @checked
    def __init__(self, on: Literal["mean", "members"] = "mean", prior: float = PRIOR) -> None:
        if on not in ("mean", "members"):
            raise unknown_name("choice of `on`", on, ("mean", "members"))
        if not prior >= 0.0:
            raise InputError(f"prior is {prior}: give a number of at least 0.")
        self.on = on
        self.prior = float(prior)

    @checked
    def fit(self, probs: ArrayLike, labels: ArrayLike) -> TemperatureScaling:
        """Finds the temperature that minimises summed NLL + prior·(log T)².

        Args:
          probs: `[N, C]`, or members `[K, N, C]`.
          labels: `[N]`.
        """
        members = check_member_probs(probs)
        labels = check_labels(labels, *members.shape[1:])
        if self.on == "mean":
            self.temperature_ = fit_temperature(mean_probability(members), labels, self.prior)
        else:
            self.temperature_ = np.array([fit_temperature(member, labels, self.prior) for member in members])
        return self

    @checked
    def transform(self, probs: ArrayLike) -> Values:
        """Scaled probabilities: `[N, C]` for "mean" (members are averaged first), `[K, N, C]` for "members".

        Args:
          probs: `[N, C]`, or members `[K, N, C]`.
        """
        if not hasattr(self, "temperature_"):
            raise InputError("This TemperatureScaling has no temperature yet: call fit on validation data first.")
        members = check_member_probs(probs)
        if self.on == "mean":
            return scale_temperature(mean_probability(members), float(self.temperature_))
        temperatures = np.asarray(self.temperature_)
        if len(members) != len(temperatures):
            raise InputError(f"Fitted on {len(temperatures)} members but {len(members)} were given: give the same.")
        return np.stack([scale_temperature(m, float(t)) for m, t in zip(members, temperatures, strict=True)])

    @checked
    def fit_transform(self, probs: ArrayLike, labels: ArrayLike) -> Values:
        """`fit`, then `transform` of the same predictions; scores on these are optimistic.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`.
          labels: `[N]`.
        """
        return self.fit(probs, labels).transform(probs)


def log_probability(probs: NDArray[np.floating]) -> Values:
    """ln p with exact zeros read as float32 underflow, whose true logarithm is at most about -87."""
    return np.log(np.maximum(probs, np.finfo(np.float32).tiny, dtype=np.float64))


def scale_temperature(probs: NDArray[np.floating], temperature: float) -> Values:
    """p^(1/T), normalised over the last axis."""
    if not temperature > LEAST_TEMPERATURE:
        raise InputError(f"The temperature is {temperature:g}: it must be above {LEAST_TEMPERATURE:g}; fit it again.")
    return softmax(log_probability(probs) / temperature, axis=-1)


def fit_temperature(probs: NDArray[np.floating], labels: Ints, prior: float, weight: Values | None = None) -> float:
    """The T in [1/100, 100] that minimises summed NLL of p^(1/T) + prior·(log T)²: `[N, C]`, `[N]` -> T.

    Args:
      weight: `[N]`, how often each row counts; once by default.
    """
    log_probs = log_probability(probs)
    weight = np.ones(len(labels)) if weight is None else weight
    of_label = label_probability(log_probs, labels) @ weight

    def objective(log_t: float) -> float:
        inverse = np.exp(-log_t)
        normalisers = np.asarray(logsumexp(log_probs * inverse, axis=1))
        return float(normalisers @ weight - inverse * of_label + prior * log_t**2)

    bounds = (-LOG_T_LIMIT, LOG_T_LIMIT)
    found = minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))

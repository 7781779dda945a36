"""Logistic regression on log-probabilities, the common ground of vector and matrix scaling.

The summed NLL of softmax(z), z linear in the parameters, is convex, and a squared penalty makes its minimum unique.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from threadpoolctl import ThreadpoolController

from nu_ensembles.calibration.protocol import LabelledRows, Values

Objective = Callable[[Values], tuple[float, Values]]
Bounds = Sequence[tuple[float | None, float | None]]


def nll_and_residuals(logits: Values, rows: LabelledRows) -> tuple[float, Values]:
    """Summed NLL of softmax(logits), and its gradient with respect to the logits, w·(p - onehot(y)): `[N, C]`."""
    log_probs = logits - np.asarray(logsumexp(logits, axis=1, keepdims=True))
    own = np.arange(len(rows.labels)), rows.labels
    residuals = np.exp(log_probs)
    residuals[own] -= 1.0
    return float(-(log_probs[own] @ rows.weight)), residuals * rows.weight[:, None]


def minimum(objective: Objective, start: Values, bounds: Bounds | None = None) -> Values:
    """Where a smooth function is lowest, by L-BFGS; `objective` returns the value and the gradient."""
    # Twenty pairs instead of ten: with C² parameters the curvature of few rows has many directions.
    options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-7}
    # L-BFGS asks LAPACK to factor matrices of at most 40 x 40: with threads that takes a hundred times as long.
    with _libraries().limit(limits=1, user_api="blas"):
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)


@functools.cache
def _libraries() -> ThreadpoolController:
    """The linear algebra of this process; scipy's is loaded by the imports above."""
    return ThreadpoolController()

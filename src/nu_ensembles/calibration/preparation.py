"""What vector and matrix scaling are given: log-probabilities of a sensible size.

  x = log( (1 - ε) p_T + ε / C ),  ε = 1 / (n + 1)

A temperature first, so that the parameters that follow are small corrections and may be shrunk to none; then a share ε
of the uniform distribution, so that a probability of zero in one row does not decide them all. After Berta, Holzmüller,
Jordan and Bach, *Structured matrix scaling for multi-class calibration*, 2025.
"""

from __future__ import annotations

from nu_ensembles.calibration.protocol import LabelledRows, Values
from nu_ensembles.metrics.temperature import fit_temperature, log_probability, scale_temperature


def preparation_of(rows: LabelledRows, temperature_prior: float) -> tuple[float, float]:
    """T and ε for rows."""
    return fit_temperature(rows.probs, rows.labels, temperature_prior, rows.weight), 1.0 / (len(rows.labels) + 1)


def prepared(probs: Values, temperature: float, share: float) -> Values:
    """x above: `[N, C]`."""
    return log_probability((1.0 - share) * scale_temperature(probs, temperature) + share / probs.shape[1])

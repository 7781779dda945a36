"""Predictions with known properties, for the tests of metrics."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def calibrated():
    """A function that makes predictions `[N, C]` and draws their labels from them: calibrated by construction."""

    def make(n_samples, n_classes, seed, sharpness=2.0):
        rng = np.random.default_rng(seed)
        probs = np.exp(sharpness * rng.normal(size=(n_samples, n_classes)))
        probs /= probs.sum(axis=1, keepdims=True)
        labels = (rng.random((n_samples, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)
        return probs, labels

    return make


@pytest.fixture(scope="session")
def ensemble():
    """A function that makes member probabilities `[K, N, C]` (float32) and labels that they predict in part."""

    def make(n_members, n_samples, n_classes, seed, sharpness=2.0):
        rng = np.random.default_rng(seed)
        shared = sharpness * rng.normal(size=(n_samples, n_classes))
        logits = shared + rng.normal(size=(n_members, n_samples, n_classes))
        probs = np.exp(logits)
        probs /= probs.sum(axis=-1, keepdims=True)
        noisy = shared + rng.gumbel(size=shared.shape)
        return probs.astype(np.float32), noisy.argmax(axis=1)

    return make

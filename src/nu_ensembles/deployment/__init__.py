"""Unlabelled rows from where the model will be used: whether they differ, and what can be said without their labels."""

from nu_ensembles.deployment.shift import Shift, two_sample_of, two_sample_test

__all__ = ["Shift", "two_sample_of", "two_sample_test"]

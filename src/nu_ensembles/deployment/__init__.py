"""Unlabelled rows from where the model will be used: whether they differ, and what can be said without their labels."""

from nu_ensembles.deployment.confirming import Confirmation, confirm
from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.expected import DeploymentExpectation, expect
from nu_ensembles.deployment.rule import Decision, decide
from nu_ensembles.deployment.shift import Shift, two_sample_of, two_sample_test

__all__ = [
    "Confirmation",
    "Decision",
    "DeploymentExpectation",
    "Shift",
    "ShiftEvidence",
    "confirm",
    "decide",
    "expect",
    "two_sample_of",
    "two_sample_test",
]

"""Unlabelled rows from where the model will be used: whether they differ, and what can be said without their labels."""

from nu_ensembles.deployment.confirming import Confirmation, confirm
from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.expected import DeploymentExpectation, expect
from nu_ensembles.deployment.looking_ahead import HeldOutPredictions, LookAhead, look_ahead
from nu_ensembles.deployment.priors import Priors, estimate_priors
from nu_ensembles.deployment.rule import Decision, decide
from nu_ensembles.deployment.shift import Shift, differs_from_all_labelled, two_sample_of, two_sample_test

__all__ = [
    "Confirmation",
    "Decision",
    "DeploymentExpectation",
    "HeldOutPredictions",
    "LookAhead",
    "Priors",
    "Shift",
    "ShiftEvidence",
    "confirm",
    "decide",
    "differs_from_all_labelled",
    "estimate_priors",
    "expect",
    "look_ahead",
    "two_sample_of",
    "two_sample_test",
]

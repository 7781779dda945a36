"""Shifts as data: labels from one distribution, unlabelled and test rows from another; deterministic from a seed."""

from nu_ensembles_studies.shifts.catalogue import ABSENT, CONFIRMING, DEVELOPMENT, available, load, names, role_of
from nu_ensembles_studies.shifts.drawing import Shifted

__all__ = ["ABSENT", "CONFIRMING", "DEVELOPMENT", "Shifted", "available", "load", "names", "role_of"]

"""Common corruptions of images: 15 types of the benchmark and four extra ones, in five severities.

The suite of Hendrycks & Dietterich (2019), "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", with the parameters published for 32×32 images.
"""

from nu_ensembles.corruptions.severities import COMMON_NAMES, EXTRA_NAMES, NAMES
from nu_ensembles.corruptions.streaming import CorruptedSet, corrupt_all
from nu_ensembles.corruptions.suite import corrupt

__all__ = ["COMMON_NAMES", "EXTRA_NAMES", "NAMES", "CorruptedSet", "corrupt", "corrupt_all"]

"""Scores, calibration, diversity and what to do with calibrated probabilities."""

from nu_ensembles.metrics.abstention import Abstention
from nu_ensembles.metrics.brier_terms import BrierDecomposition, brier_decomposition
from nu_ensembles.metrics.calibration import ece
from nu_ensembles.metrics.calibration_variants import classwise_ece, top_label_ece
from nu_ensembles.metrics.conformal import ConformalSets, set_coverage
from nu_ensembles.metrics.diversity import (
    disagreement,
    mutual_information,
    pairwise_mutual_information,
    variance,
)
from nu_ensembles.metrics.equal_mass import tace
from nu_ensembles.metrics.evaluation import evaluate
from nu_ensembles.metrics.labelling import labelling_scores, rank_for_labelling
from nu_ensembles.metrics.out_of_distribution import ood_scores
from nu_ensembles.metrics.scores import accuracy, brier, nll
from nu_ensembles.metrics.selective import RiskCoverage, aurc, error_auroc, ood_auroc, risk_coverage
from nu_ensembles.metrics.temperature import TemperatureScaling

__all__ = [
    "Abstention",
    "BrierDecomposition",
    "ConformalSets",
    "RiskCoverage",
    "TemperatureScaling",
    "accuracy",
    "aurc",
    "brier",
    "brier_decomposition",
    "classwise_ece",
    "disagreement",
    "ece",
    "error_auroc",
    "evaluate",
    "labelling_scores",
    "mutual_information",
    "nll",
    "ood_auroc",
    "ood_scores",
    "pairwise_mutual_information",
    "rank_for_labelling",
    "risk_coverage",
    "set_coverage",
    "tace",
    "top_label_ece",
    "variance",
]

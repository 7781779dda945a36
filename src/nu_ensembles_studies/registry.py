"""All studies by name."""

from __future__ import annotations

from nu_ensembles.errors import unknown_name
from nu_ensembles_studies.declare.study import Study
from nu_ensembles_studies.experiments.auto_safety import AUTO_SAFETY
from nu_ensembles_studies.experiments.beta_sensitivity import BETA_SENSITIVITY
from nu_ensembles_studies.experiments.corruptions import CORRUPTIONS
from nu_ensembles_studies.experiments.cost import COST
from nu_ensembles_studies.experiments.deployment import DEPLOYMENT
from nu_ensembles_studies.experiments.ensemble_size import ENSEMBLE_SIZE
from nu_ensembles_studies.experiments.ensembles import ENSEMBLES
from nu_ensembles_studies.experiments.gains_by_size import WHEN
from nu_ensembles_studies.experiments.label_ablation import LABEL_ABLATION
from nu_ensembles_studies.experiments.methods import METHODS_STUDY
from nu_ensembles_studies.experiments.rivals import RIVALS_STUDY
from nu_ensembles_studies.experiments.table1 import TABLE1
from nu_ensembles_studies.experiments.training_size import TRAINING_SIZE
from nu_ensembles_studies.experiments.unlabelled_size import UNLABELLED_SIZE

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        TABLE1,
        TRAINING_SIZE,
        CORRUPTIONS,
        ENSEMBLE_SIZE,
        COST,
        AUTO_SAFETY,
        DEPLOYMENT,
        BETA_SENSITIVITY,
        LABEL_ABLATION,
        UNLABELLED_SIZE,
        WHEN,
        METHODS_STUDY,
        ENSEMBLES,
        RIVALS_STUDY,
    )
}


def find_study(name: str) -> Study:
    """A study by its name on the command line."""
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    return STUDIES[name]

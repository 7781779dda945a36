"""All studies by name."""

from __future__ import annotations

from nu_ensembles.errors import unknown_name
from nu_ensembles.studies.auto_safety import AUTO_SAFETY
from nu_ensembles.studies.beta_sensitivity import BETA_SENSITIVITY
from nu_ensembles.studies.cost import COST
from nu_ensembles.studies.ensemble_size import ENSEMBLE_SIZE
from nu_ensembles.studies.label_ablation import LABEL_ABLATION
from nu_ensembles.studies.method_comparison import METHODS_STUDY
from nu_ensembles.studies.shift import CORRUPTIONS
from nu_ensembles.studies.study import Study
from nu_ensembles.studies.table1 import TABLE1
from nu_ensembles.studies.training_size import TRAINING_SIZE
from nu_ensembles.studies.unlabelled_size import UNLABELLED_SIZE
from nu_ensembles.studies.when import WHEN

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        TABLE1,
        TRAINING_SIZE,
        CORRUPTIONS,
        ENSEMBLE_SIZE,
        COST,
        AUTO_SAFETY,
        BETA_SENSITIVITY,
        LABEL_ABLATION,
        UNLABELLED_SIZE,
        WHEN,
        METHODS_STUDY,
    )
}


def find_study(name: str) -> Study:
    """A study by its name on the command line."""
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    return STUDIES[name]

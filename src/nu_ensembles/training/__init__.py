"""From a checked problem to a trained ensemble: the job, the runner, the run folder, `nu.fit`."""

from nu_ensembles.training.fit_arrays import fit
from nu_ensembles.training.job import TrainingJob, make_job, steps_in
from nu_ensembles.training.on_ray import RayCluster
from nu_ensembles.training.run_folder import FollowingRun, RunFolder, environment
from nu_ensembles.training.runner import UnlabeledPredictions, predict_members, predict_unlabeled, run_job

__all__ = [
    "FollowingRun",
    "RayCluster",
    "RunFolder",
    "TrainingJob",
    "UnlabeledPredictions",
    "environment",
    "fit",
    "make_job",
    "predict_members",
    "predict_unlabeled",
    "run_job",
    "steps_in",
]

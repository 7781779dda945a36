"""Ways to train an ensemble: one file each, all on the protocol in `protocol.py`."""

from nu_ensembles.methods.agree_to_disagree import AgreeToDisagree
from nu_ensembles.methods.batch_ensemble import BatchEnsemble
from nu_ensembles.methods.confidence_penalty import ConfidencePenalty
from nu_ensembles.methods.cyclical_sgmcmc import ColdPosterior, CyclicalSGMCMC
from nu_ensembles.methods.dice import Dice
from nu_ensembles.methods.feature_flow import FeatureFlow
from nu_ensembles.methods.forward import FeatureForward, Forward, ParameterForward
from nu_ensembles.methods.hmc import HMC
from nu_ensembles.methods.hyper_deep import HyperDeep
from nu_ensembles.methods.label_smoothing import LabelSmoothing
from nu_ensembles.methods.laplace import Laplace
from nu_ensembles.methods.mc_dropout import McDropout
from nu_ensembles.methods.mixup import Mixup
from nu_ensembles.methods.nu import LabelScheme, Nu
from nu_ensembles.methods.pac2 import Pac2
from nu_ensembles.methods.pac2b import Pac2B
from nu_ensembles.methods.packed_ensemble import PackedEnsemble
from nu_ensembles.methods.procedure import AnyMethod, Procedure
from nu_ensembles.methods.protocol import BaseMethod, Batch, Method, hyper_parameters, method
from nu_ensembles.methods.registry import METHODS, build, method_for
from nu_ensembles.methods.repulsive import RepulsiveEnsemble
from nu_ensembles.methods.self_training import SelfTraining
from nu_ensembles.methods.single import Single
from nu_ensembles.methods.sngp import SNGP
from nu_ensembles.methods.standard import Standard
from nu_ensembles.methods.swag import MultiSwag, Swag
from nu_ensembles.methods.trainer import Members, Networks, Snapshots, Trainer, TrainingRows
from nu_ensembles.methods.transformation_ensemble import MultiSymmetryEnsemble, TransformationEnsemble

__all__ = [
    "HMC",
    "METHODS",
    "SNGP",
    "AgreeToDisagree",
    "AnyMethod",
    "BaseMethod",
    "Batch",
    "BatchEnsemble",
    "ColdPosterior",
    "ConfidencePenalty",
    "CyclicalSGMCMC",
    "Dice",
    "FeatureFlow",
    "FeatureForward",
    "Forward",
    "HyperDeep",
    "LabelScheme",
    "LabelSmoothing",
    "Laplace",
    "McDropout",
    "Members",
    "Method",
    "Mixup",
    "MultiSwag",
    "MultiSymmetryEnsemble",
    "Networks",
    "Nu",
    "Pac2",
    "Pac2B",
    "PackedEnsemble",
    "ParameterForward",
    "Procedure",
    "RepulsiveEnsemble",
    "SelfTraining",
    "Single",
    "Snapshots",
    "Standard",
    "Swag",
    "Trainer",
    "TrainingRows",
    "TransformationEnsemble",
    "build",
    "hyper_parameters",
    "method",
    "method_for",
]

"""Methods by name, and which of them runs on the data that there are."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.methods.agree_to_disagree import AgreeToDisagree
from nu_ensembles.methods.batch_ensemble import BatchEnsemble
from nu_ensembles.methods.confidence_penalty import ConfidencePenalty
from nu_ensembles.methods.cyclical_sgmcmc import ColdPosterior, CyclicalSGMCMC
from nu_ensembles.methods.dice import Dice
from nu_ensembles.methods.feature_flow import FeatureFlow
from nu_ensembles.methods.hmc import HMC
from nu_ensembles.methods.hyper_deep import HyperDeep
from nu_ensembles.methods.label_smoothing import LabelSmoothing
from nu_ensembles.methods.laplace import Laplace
from nu_ensembles.methods.mc_dropout import McDropout
from nu_ensembles.methods.mixup import Mixup
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.pac2 import Pac2
from nu_ensembles.methods.pac2b import Pac2B
from nu_ensembles.methods.packed_ensemble import PackedEnsemble
from nu_ensembles.methods.procedure import AnyMethod
from nu_ensembles.methods.repulsive import RepulsiveEnsemble
from nu_ensembles.methods.self_training import SelfTraining
from nu_ensembles.methods.single import Single
from nu_ensembles.methods.sngp import SNGP
from nu_ensembles.methods.standard import Standard
from nu_ensembles.methods.swag import MultiSwag, Swag
from nu_ensembles.methods.transformation_ensemble import MultiSymmetryEnsemble, TransformationEnsemble

_LOSSES = (Standard, Nu, AgreeToDisagree, Pac2, Pac2B, Dice, LabelSmoothing, Mixup, ConfidencePenalty)
_FLOWS = (RepulsiveEnsemble, FeatureFlow)
_OF_ONE = (Single, McDropout, Swag, MultiSwag, CyclicalSGMCMC, ColdPosterior, HMC, Laplace, SNGP, BatchEnsemble)
_PROCEDURES = (HyperDeep, SelfTraining, TransformationEnsemble, MultiSymmetryEnsemble, PackedEnsemble)
METHODS: dict[str, type] = {cls.name: cls for cls in (*_LOSSES, *_FLOWS, *_OF_ONE, *_PROCEDURES)}


@checked
def build(name: str, **options: Any) -> AnyMethod:
    """A method by its name: `build("nu", beta=0.01)`.

    Args:
      name: one of `METHODS`.
      **options: hyper-parameters of the method; the others keep their defaults.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    known = inspect.signature(METHODS[name]).parameters
    for option in options:
        if option not in known:
            if option == "beta" and known:
                # Asked for again and again: the same method with random labels.
                raise InputError(
                    f"The method {name!r} takes no beta, since its members do not train on their own; random labels "
                    f"are for {', '.join(map(repr, _with_beta()))}."
                )
            error = unknown_name(f"option of method {name!r}", option, known)
            raise (error if known else InputError(f"The method {name!r} takes no options; leave out {option!r}."))
    return METHODS[name](**options)


def _with_beta() -> list[str]:
    """The methods whose members can carry random labels."""
    of_procedures = [cls.name for cls in (*_OF_ONE, *_PROCEDURES) if "beta" in inspect.signature(cls).parameters]
    return [Nu.name, *of_procedures]


@checked
def method_for(method: AnyMethod | str, n_unlabeled: int) -> AnyMethod:
    """The method that will run on so many unlabelled rows: `Nu(0)` is `Standard()`.

    Without any, a nu-ensemble becomes the standard ensemble that it is at beta = 0, with a warning, and so does what
    only adds nu to something else. Every other method that takes unlabelled rows is refused: it would be another one.

    Args:
      method: a method, or its name.
      n_unlabeled: how many unlabelled rows there are.
    """
    if isinstance(method, str):
        method = build(method)
    if isinstance(method, type) or not hasattr(method, "effective"):
        raise InputError(
            f"method must be a name, such as 'nu', or an instance, such as nu.methods.Nu(0.01), not {shown(method)}."
        )
    method = method.effective()
    if not method.uses_unlabeled or n_unlabeled:
        return method
    without = method.without_unlabeled()
    if without is None:
        raise InputError(
            f"The method {method.name!r} needs unlabelled rows, and there are none; pass some, or use another method, "
            "such as 'standard'."
        )
    fallen = f"{without.name!r} without random labels" if without.name == method.name else f"a {without.name} ensemble"
    warnings.warn(
        f"There is no unlabelled data, so {method.name!r} falls back to {fallen}; pass unlabelled rows to use it.",
        stacklevel=4,
    )
    return without

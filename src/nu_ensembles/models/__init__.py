"""Networks: built-in ones, and adapters for a user's own (see `docs/models.md`)."""

from nu_ensembles.models.equinox_adapter import from_equinox
from nu_ensembles.models.inspect import uses_convolution, variable_shapes
from nu_ensembles.models.keras_adapter import from_keras
from nu_ensembles.models.lenet import lenet
from nu_ensembles.models.linen_adapter import from_linen
from nu_ensembles.models.mlp import mlp, mlp_large
from nu_ensembles.models.model import Model, ModelSpec, join_variables, logits_and_features, split_variables
from nu_ensembles.models.nnx_adapter import from_nnx
from nu_ensembles.models.registry import build, from_spec, network_for
from nu_ensembles.models.signal import signal
from nu_ensembles.models.torch_import import from_torch, torch_rule
from nu_ensembles.models.wide_resnet import wide_resnet

__all__ = [
    "Model",
    "ModelSpec",
    "build",
    "from_equinox",
    "from_keras",
    "from_linen",
    "from_nnx",
    "from_spec",
    "from_torch",
    "join_variables",
    "lenet",
    "logits_and_features",
    "mlp",
    "mlp_large",
    "network_for",
    "signal",
    "split_variables",
    "torch_rule",
    "uses_convolution",
    "variable_shapes",
    "wide_resnet",
]

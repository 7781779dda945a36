"""PyTorch networks as models: exported to a graph of ATen operations, which a table of rules computes in JAX."""

from nu_ensembles.models.torch_import import (  # noqa: F401  (each fills the table)
    channels_last,
    rules_convolutions,
    rules_elementwise,
    rules_fourier,
    rules_gathering,
    rules_indexing,
    rules_linear_algebra,
    rules_making,
    rules_normalisation,
    rules_pooling,
    rules_products,
    rules_random,
    rules_recurrent,
    rules_reductions,
    rules_resizing,
    rules_shapes,
)
from nu_ensembles.models.torch_import.adapter import from_torch
from nu_ensembles.models.torch_import.rules import torch_rule

channels_last.register()

__all__ = ["from_torch", "torch_rule"]

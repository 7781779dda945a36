"""From checked options to a built-in `Model`: the same options give back the same object.

The engine keys its compiled programs by model, so a second fit of an equal network must not build a new one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from nu_ensembles.backend import Backend
from nu_ensembles.checks import check_whole, shown
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.models.linen_adapter import from_linen
from nu_ensembles.models.model import Model, ModelSpec

DTYPES = ("bfloat16", "float32", "float64")


def built_in(
    name: str,
    module: type[nn.Module],
    n_classes: int,
    options: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
) -> Model:
    """The model of `module(n_classes, **options, **fixed)`; `fixed` fields are no options of the builder."""
    n_classes = check_whole(n_classes, "n_classes", least=2)
    spec = ModelSpec(name, n_classes, tuple(sorted(options.items())))
    return _cached(spec, module(n_classes, **options, **(fixed or {})))


@functools.cache
def _cached(spec: ModelSpec, module: nn.Module) -> Model:
    return dataclasses.replace(
        from_linen(module, features_method="features", both_method="logits_and_features"), spec=spec
    )


def dtype_name(dtype: Any) -> str:
    """The name of a compute dtype, given as a name, a numpy dtype or a jax scalar type.

    "auto" is bfloat16 on a GPU and float32 elsewhere; a saved network keeps what it was made with.
    """
    if isinstance(dtype, str) and dtype == "auto":
        return Backend.current().convolution_dtype
    try:
        name = jnp.dtype(dtype).name
    except Exception:  # NumPy asks foreign types, which raise what they like
        name = dtype if isinstance(dtype, str) else shown(dtype)
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    if jax.dtypes.canonicalize_dtype(name) != name:
        raise InputError('dtype="float64" needs jax.config.update("jax_enable_x64", True) first.')
    return name

"""Built-in networks for sparse rows, and the same networks, with the same variables, for dense ones."""

from __future__ import annotations

from nu_ensembles.models.model import Model
from nu_ensembles.models.registry import build
from nu_ensembles.models.wrapped import unwrapped, wrapped

TAKE_SPARSE = ("mlp", "mlp_large")


def for_sparse_rows(model: Model, columns: int) -> Model | None:
    """The network that takes pairs of column and value, `[B, M, 2]`, or None where there is no such one.

    Args:
      model: a network for dense rows.
      columns: how many these have.
    """
    inside, wrapper = unwrapped(model)
    if wrapper is not None:
        found = for_sparse_rows(inside, columns)
        return None if found is None else wrapped(found, wrapper.name, **dict(wrapper.options))
    spec = model.spec
    # Ramps make five inputs of each column, zeros included.
    if spec is None or spec.name not in TAKE_SPARSE or dict(spec.options).get("ramps"):
        return None
    return build(spec.name, spec.n_classes, **{**dict(spec.options), "columns": columns})


def for_dense_rows(model: Model) -> Model:
    """The network that takes rows `[B, F]`, of one that takes pairs; any other as it is."""
    inside, wrapper = unwrapped(model)
    if wrapper is not None:
        return wrapped(for_dense_rows(inside), wrapper.name, **dict(wrapper.options))
    spec = model.spec
    options = {} if spec is None else dict(spec.options)
    if spec is None or options.pop("columns", None) is None:
        return model
    return build(spec.name, spec.n_classes, **options)

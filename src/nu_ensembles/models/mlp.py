"""Multi-layer perceptrons for tables, embeddings and small images.

`mlp_large` is the published one: hidden layers of 784, 500 and 300 units (the paper says two, its code has
three).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
from jax import Array

from nu_ensembles.checks import check_flag, check_positive, check_whole, checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.builtin import built_in, dtype_name
from nu_ensembles.models.layers import GroupedDense, Returned, SparseDense, dense, full_dtype, last_layer
from nu_ensembles.models.model import Model
from nu_ensembles.models.ramps import ramped

PUBLISHED_HIDDEN = (784, 500, 300)


class MLP(nn.Module):
    """`[B, …] -> [B, n_classes]`: flatten (+ ramps), then dense + ReLU (+ dropout) per hidden layer, then dense.

    With `columns` the rows are sparse, `[B, M, 2]`; the variables are those of the network for dense rows.
    """

    n_classes: int
    hidden: tuple[int, ...] = (64, 64)
    dropout: float = 0.0
    dtype: Any = "float32"
    ramps: bool = False
    columns: int | None = None
    groups: int = 1

    @nn.compact
    def __call__(self, x: Array, deterministic: bool = True, returned: Returned = "logits") -> Any:
        h = x.reshape(x.shape[0], -1) if self.columns is None else x
        h = ramped(h) if self.ramps else h
        for number, units in enumerate(self.hidden):
            h = nn.relu(self._layer(number, units, self.dtype)(h))
            h = nn.Dropout(self.dropout)(h, deterministic=deterministic)
        h = h.astype(full_dtype(self.dtype))
        return last_layer(h, self._layer(len(self.hidden), self.n_classes, h.dtype), returned)

    def _layer(self, number: int, units: int, dtype: Any) -> nn.Module:
        name = f"Dense_{number}"
        if number == 0 and self.columns is not None:
            return SparseDense(units, self.columns, dtype, name=name)
        if 0 < number < len(self.hidden) and self.groups > 1:
            return GroupedDense(units, self.groups, dtype, name=name)
        return dense(units, dtype=dtype, name=name)

    def features(self, x: Array, deterministic: bool = True) -> Array:
        return self(x, deterministic, returned="features")

    def logits_and_features(self, x: Array, deterministic: bool = True) -> tuple[Array, Array]:
        return self(x, deterministic, returned="both")


@checked
def mlp(
    n_classes: int,
    hidden: Sequence[int] = (64, 64),
    dropout: float = 0.0,
    dtype: Any = "float32",
    ramps: bool = False,
    columns: int | None = None,
    groups: int = 1,
) -> Model:
    """A perceptron, for rows of any shape, which it flattens.

    Args:
      n_classes: length of the logits.
      hidden: units of each hidden layer; `()` is multinomial logistic regression.
      dropout: share of the activations of each hidden layer that is dropped.
      dtype: of the products; "bfloat16" leaves parameters, sums, the last layer and the logits float32.
      ramps: make five inputs of each column of a standardised table, itself and a ramp for each quarter of its range.
        `nu.fit` and the classifiers turn them on for the network named "mlp" where they standardise up to 60 columns.
      columns: how many columns sparse rows have, which then come as `[B, M, 2]`: pairs of a column's number and its
        value, filled up with zeros. None for rows as they are. `nu.fit` and the classifiers hand large sparse matrices
        over so by themselves.
      groups: into how many parts that do not meet the layers between the first hidden and the last fall; it divides the
        units of every hidden layer.
    """
    if not isinstance(hidden, Sequence):
        raise InputError(f"hidden must list the units of each hidden layer, as in (64, 64), not {shown(hidden)}.")
    options = {
        "hidden": tuple(check_whole(units, "hidden") for units in hidden),
        "dropout": check_positive(dropout, "dropout", zero_allowed=True, below=1),
        "dtype": dtype_name(dtype),
    }
    # Said only where it is so: networks without are described as they always were.
    options |= {"ramps": True} if check_flag(ramps, "ramps") else {}
    if ramps and columns is not None:
        raise InputError("ramps are of dense rows, which leaves columns out.")
    if check_whole(groups, "groups") > 1:
        if any(units % groups for units in options["hidden"]):
            raise InputError(f"groups={groups} must divide the units of every hidden layer, {tuple(hidden)}.")
        options |= {"groups": groups}
    return built_in("mlp", MLP, n_classes, options | _of_columns(columns))


@checked
def mlp_large(n_classes: int, columns: int | None = None) -> Model:
    """The published perceptron, 784-500-300.

    Args:
      n_classes: length of the logits.
      columns: see `mlp`.
    """
    return built_in("mlp_large", MLP, n_classes, _of_columns(columns), {"hidden": PUBLISHED_HIDDEN})


def _of_columns(columns: int | None) -> dict[str, int]:
    """The option where it says something: networks for dense rows are described as they always were."""
    return {} if columns is None else {"columns": check_whole(columns, "columns")}

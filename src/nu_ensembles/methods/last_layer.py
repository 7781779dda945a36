"""The last layer of a network among its weights: found by what it does, whatever library the network is from."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, logits_and_features, split_variables

# How far logits may be from what the layer gives, as a share of their size: less than half precision would leave.
TOLERANCE = 1e-3


class LastLayer(NamedTuple):
    """Where the last layer's weights stand among the leaves of a network's parameters.

    Attributes:
      kernel: the leaf that is `[F, C]`, or `[C, F]` if transposed.
      bias: the leaf that is `[C]`; None where there is none.
      transposed: whether the kernel's classes come first.
    """

    kernel: int
    bias: int | None
    transposed: bool

    def of(self, params: Any) -> np.ndarray:
        """Each network's last layer, `[K, C, F + 1]`: the weights of each class, and its bias last (0 without one).

        Args:
          params: leaves `[K, …]`.
        """
        leaves = jax.tree.leaves(params)
        kernel = np.asarray(leaves[self.kernel], np.float64)
        kernel = kernel if self.transposed else np.swapaxes(kernel, 1, 2)
        bias = np.zeros(kernel.shape[:2]) if self.bias is None else np.asarray(leaves[self.bias], np.float64)
        return np.concatenate([kernel, bias[..., None]], axis=2)

    def replaced(self, params: Any, layers: np.ndarray) -> Any:
        """The networks with other last layers, `[K, C, F + 1]` as `of` gives them."""
        leaves, structure = jax.tree.flatten(params)
        kernel = layers[..., :-1] if self.transposed else np.swapaxes(layers[..., :-1], 1, 2)
        leaves[self.kernel] = kernel.astype(leaves[self.kernel].dtype)
        if self.bias is not None:
            leaves[self.bias] = layers[..., -1].astype(leaves[self.bias].dtype)
        return jax.tree.unflatten(structure, leaves)


def find_last_layer(params: Any, features: np.ndarray, logits: np.ndarray) -> LastLayer:
    """The weights that turn a network's features into its logits.

    Args:
      params: of one network, its leaves without an axis of networks.
      features: `[N, F]`; logits: `[N, C]`, of the same rows.

    Raises:
      InputError: none do.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
    n_features, n_classes = features.shape[1], logits.shape[1]
    biases = [None, *(place for place, leaf in enumerate(leaves) if leaf.shape == (n_classes,))]
    # From the back, where the last layer usually is.
    for place in reversed(range(len(leaves))):
        for transposed, shape in ((False, (n_features, n_classes)), (True, (n_classes, n_features))):
            if leaves[place].shape != shape:
                continue
            product = features @ (leaves[place].T if transposed else leaves[place])
            for bias in reversed(biases):
                given = product if bias is None else product + leaves[bias]
                if np.abs(given - logits).max() <= TOLERANCE * max(1.0, np.abs(logits).max()):
                    return LastLayer(place, bias, transposed)
    raise InputError(
        "This method is about the last layer, and no weights of this network turn its features into its logits; use "
        "one that ends with a dense layer, whose inputs are what Model(features=…) gives."
    )


def last_layer_of(model: Model, row_shape: tuple[int, ...]) -> LastLayer:
    """Where a network's last layer is, told from freshly drawn weights.

    Raises:
      InputError: it does not end with a dense layer.
    """
    key = jax.random.key(0, impl="threefry2x32")
    x = jax.random.normal(key, (4, *row_shape), jnp.float32)
    variables = model.init(key, x)
    logits, features = jax.jit(lambda v, x: logits_and_features(model, v, x, key=None, train=False))(variables, x)
    params, _ = split_variables(variables)
    return find_last_layer(params, np.asarray(features), np.asarray(logits))

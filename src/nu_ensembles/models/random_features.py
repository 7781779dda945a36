"""A network with a Gaussian process in place of its last layer, and bounded weights in front of it.

  logits = B phi(h) + b,    phi(h) = sqrt(2 / D) cos(W h / l + c),    W ~ N(0, 1) and c ~ U(0, 2 pi), drawn once
  W_i  ->  W_i min(1, bound / |W_i|),    |W_i| the spectral norm, by a step of power iteration with every pass

phi are random Fourier features of the kernel exp(-|h - h'|² / 2 l²), h what entered the network's own last layer
(Rahimi and Recht, 2007). A convolution counts as the matrix of all its taps (Miyato et al., 2018).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.models.model import Model, logits_and_features, split_variables

# Folded into the key of a network's weights, for what else is drawn.
DRAWN = np.uint32(0xFFFFFFFC)
TINY = 1e-12


def random_features(
    inner: Model,
    kernel: int,
    transposed: bool,
    n_random: int,
    length_scale: float,
    bias: int | None = None,
    norm_bound: float | None = None,
) -> Model:
    """The network around another; its parameters are those of the one inside, with B as the last layer's kernel.

    Its state has what is drawn once, and the vectors of the power iterations by the number of their kernel.

    Args:
      inner: a network that exposes features, ends with a dense layer and has no mutable state.
      kernel: the number of the last layer's kernel among the leaves of its parameters.
      transposed: whether that has the classes first.
      n_random: D; 0 keeps the last layer as it is, whose kernel is the linear one.
      length_scale: l.
      bias: the number of the last layer's bias; None where it has none.
      norm_bound: of every other kernel; None leaves them free.
    """

    check_whole(kernel, "kernel", least=0)
    check_whole(n_random, "n_random", least=0)
    check_positive(length_scale, "length_scale")

    def init(key: Array, x: Array) -> Any:
        params, _ = split_variables(inner.init(key, x))
        features = jax.eval_shape(lambda p: logits_and_features(inner, p, x, key=None, train=False)[1], params)
        of_weights, of_phases, of_vectors, of_output = jax.random.split(jax.random.fold_in(key, DRAWN), 4)
        leaves, structure = jax.tree.flatten(params)
        if max(kernel, bias or 0) >= len(leaves):
            raise InputError(f"The network has {len(leaves)} arrays of weights, so none has the number {kernel}.")
        state: dict[str, Any] = {"vectors": {}}
        if norm_bound is not None:
            for number, leaf in enumerate(leaves):
                if leaf.ndim >= 2 and number != kernel:
                    drawn = jax.random.normal(jax.random.fold_in(of_vectors, number), leaf.shape[-1:], leaf.dtype)
                    state["vectors"][str(number)] = drawn
        if n_random:
            last, size = leaves[kernel], features.shape[-1]
            n_classes = last.shape[0 if transposed else 1]
            leaves[kernel] = jax.random.normal(of_output, (n_random, n_classes), last.dtype) / jnp.sqrt(n_random)
            state |= {
                "weights": jax.random.normal(of_weights, (size, n_random), last.dtype) / length_scale,
                "phases": jax.random.uniform(of_phases, (n_random,), last.dtype, maxval=2 * np.pi),
            }
        return {"params": jax.tree.unflatten(structure, leaves), "drawn": state}

    def both(variables: Any, x: Array, *, key: Array | None, train: bool) -> tuple[Any, Array]:
        drawn, vectors = variables["drawn"], {}
        leaves, structure = jax.tree.flatten(variables["params"])
        for number, vector in drawn["vectors"].items():
            assert norm_bound is not None
            leaves[int(number)], vectors[number] = within(leaves[int(number)], vector, norm_bound)
        output = leaves[kernel]
        if n_random:
            # Its features do not depend on its last layer, which must be of the shape that it was made with.
            size, n_classes = len(drawn["weights"]), output.shape[1]
            leaves[kernel] = jnp.zeros((n_classes, size) if transposed else (size, n_classes), output.dtype)
        inside = jax.tree.unflatten(structure, leaves)
        logits, features = logits_and_features(inner, inside, x, key=key, train=train)
        if n_random:
            waves = jnp.cos(features.astype(output.dtype) @ drawn["weights"] + drawn["phases"])
            features = jnp.sqrt(2 / n_random).astype(output.dtype) * waves
            # Not added to the logits of a last layer of zeros, although these are the bias: XLA's CPU compiler turned
            # the product with zeros and a softmax behind it into something else.
            logits = features @ output + (0 if bias is None else leaves[bias])
        return ((logits, {"drawn": {**drawn, "vectors": vectors}}) if train else logits), features

    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Any:
        return both(variables, x, key=key, train=train)[0]

    def features(variables: Any, x: Array, *, key: Array | None, train: bool) -> Array:
        return both(variables, x, key=key, train=train)[1]

    return Model(init, apply, features, None, both)


def within(kernel: Array, vector: Array, bound: float) -> tuple[Array, Array]:
    """A kernel with a spectral norm of at most about `bound`, and the vector of the next step of power iteration.

    Args:
      kernel: `[…, out]`, a matrix of all axes but the last by the last.
      vector: `[out]`, of the step before.
    """
    matrix = kernel.reshape(-1, kernel.shape[-1])
    still = jax.lax.stop_gradient(matrix)
    left = still @ vector
    left = left / (jnp.linalg.norm(left) + TINY)
    right = left @ still
    right = right / (jnp.linalg.norm(right) + TINY)
    norm = left @ matrix @ right
    return kernel * jnp.minimum(1.0, bound / jnp.maximum(norm, TINY)), right

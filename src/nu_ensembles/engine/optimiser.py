"""AdamW with traced learning rate and weight decay, or an optax optimiser that the user brings."""

from __future__ import annotations

import optax
from jax import Array

# Of AdamW, as published.
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def optimiser(
    custom: optax.GradientTransformation | None, learning_rate: Array, weight_decay: Array
) -> optax.GradientTransformation:
    """The optimiser of one member.

    AdamW as published: a constant rate, and decay that is decoupled from the gradient and acts on all
    parameters. It is put together here because optax.adamw fixes the decay when it is built, and ours is traced.

    Args:
      custom: used as it is, with its own rate and decay, if given.
      learning_rate: scalar, traced.
      weight_decay: scalar, traced; each step subtracts `learning_rate * weight_decay * w`.
    """
    if custom is not None:
        return custom
    return optax.chain(
        optax.scale_by_adam(BETA1, BETA2, EPSILON),
        optax.add_decayed_weights(weight_decay),  # pyright: ignore[reportArgumentType]  # a traced scalar is fine
        optax.scale_by_learning_rate(learning_rate),  # pyright: ignore[reportArgumentType]
    )

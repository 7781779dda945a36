"""A factor of its own for every input of a perceptron, learnt faster than the weights behind it.

  x_j → PACE · s_j · x_j,   s_j = 1 / PACE at first

Of many columns few may matter, and all weights that read one column can grow or shrink together through its factor: an
optimiser's step moves that by PACE steps' length (a scaling layer: Holzmüller, Grinsztajn and Steinwart, *Better by
default*, 2024). Together with inputs that are dropped at random it is what serves small tables best;
benchmarks/table_networks.py measures what each is worth.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
from jax import Array

from nu_ensembles.models.ramps import wants_ramps

PACE = 6.0
# Share of the inputs that a row goes without in a training step, of networks that standardised tables get by default.
INPUT_DROPOUT = 0.2
# Measured up to 180 columns. Rows of many more are mostly embeddings, or sparse, where a zero means something.
MOST_COLUMNS = 256


class InputScales(nn.Module):
    """`[B, F] -> [B, F]`"""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        scale = self.param("scale", nn.initializers.constant(1.0 / PACE), (x.shape[-1],), x.dtype)
        return x * (PACE * scale)


def inputs_of_table(row_shape: tuple[int, ...]) -> dict[str, Any]:
    """What a perceptron for standardised rows of this shape makes of them where nobody said otherwise: its options."""
    of_table = len(row_shape) == 1 and row_shape[0] <= MOST_COLUMNS
    options: dict[str, Any] = {"input_scales": True, "input_dropout": INPUT_DROPOUT} if of_table else {}
    return {"ramps": True, **options} if wants_ramps(row_shape) else options

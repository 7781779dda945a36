"""The one place that decides how the built-in networks convolve.

`conv_general_dilated` has the signature of `jax.lax.conv_general_dilated` and is handed to every convolution
layer (see `layers.py`). It is lax's own; the member-batched lowering (a grouped convolution or im2col, chosen
by shape) belongs in this file, and no network needs to know of it.
"""

from __future__ import annotations

import jax

conv_general_dilated = jax.lax.conv_general_dilated

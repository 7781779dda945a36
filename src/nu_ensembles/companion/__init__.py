"""A classifier of another kind that is pooled with the networks, as plain arrays that are saved with them."""

from nu_ensembles.companion.forest import Forest, GrownForest, grow
from nu_ensembles.companion.pooled import Companion

__all__ = ["Companion", "Forest", "GrownForest", "grow"]

"""Built-in networks by name, as configurations, saved ensembles and the command line give them, or the user's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.models.inspect import read_network
from nu_ensembles.models.lenet import lenet
from nu_ensembles.models.mlp import mlp, mlp_large
from nu_ensembles.models.model import Model, ModelSpec
from nu_ensembles.models.ramps import wants_ramps
from nu_ensembles.models.signal import signal
from nu_ensembles.models.wide_resnet import wide_resnet

BUILDERS: dict[str, Callable[..., Model]] = {
    "mlp": mlp,
    "mlp_large": mlp_large,
    "lenet": lenet,
    "signal": signal,
    "wide_resnet": wide_resnet,
}

_WRN = re.compile(r"(?:wrn|wide_resnet)_(\d+)_(\d+)")


@checked
def build(name: str, n_classes: int, **options: Any) -> Model:
    """Builds a network by its name.

    Args:
      name: "mlp", "mlp_large", "lenet", "signal", "wide_resnet", or "wrn-DEPTH-WIDTH" such as "wrn-22-4".
      n_classes: length of the logits.
      **options: of the builder of that name. Equal calls return the same object.
    """
    key = str(name).lower().replace("-", "_")
    if match := _WRN.fullmatch(key):
        key, shape = "wide_resnet", {"depth": int(match[1]), "widen": int(match[2])}
        for option in shape.keys() & options.keys():
            raise InputError(f"The name {name!r} already says the {option}; leave the option {option} out.")
        options |= shape
    if key not in BUILDERS:
        raise unknown_name("model", name, [*BUILDERS, "wrn-22-4"])
    known = [option for option in inspect.signature(BUILDERS[key]).parameters if option != "n_classes"]
    for option in options:
        if option not in known:
            raise unknown_name(f"{key} option", option, known)
    return BUILDERS[key](n_classes, **options)


@checked
def network_for(
    model: str | Model,
    n_classes: int,
    row_shape: tuple[int, ...],
    options: Mapping[str, Any],
    standardised: bool = False,
) -> Model:
    """The network that the user means, after a look at its shapes: it takes the rows and gives a logit per class.

    Args:
      model: a name, or a network.
      n_classes: how many logits it should give.
      row_shape: of a row, without the batch.
      options: of the built-in network of that name.
      standardised: whether its rows are; the perceptron of a table then gets ramps, unless the options say otherwise.
    """
    if isinstance(model, str):
        if model.lower() == "mlp" and standardised and wants_ramps(row_shape):
            options = {"ramps": True, **options}
        network = build(model, n_classes, **options)
    elif isinstance(model, Model):
        network = model
    else:
        raise InputError(
            f"model must be a name or a nu.Model, not a {type(model).__name__}; wrap your own module with "
            "nu.models.from_linen, from_nnx or from_equinox."
        )
    logits = read_network(network, row_shape).output
    expected = 2, n_classes
    found = getattr(logits, "shape", type(logits).__name__)
    if found != expected:
        raise InputError(
            f"The network turns two rows into {found} where {expected} is expected: one logit for each class of y."
        )
    return network


@checked
def from_spec(spec: ModelSpec | Mapping[str, Any]) -> Model:
    """The network that a spec describes.

    Args:
      spec: a `ModelSpec`, or its dict read back from JSON.
    """
    fields = spec.to_dict() if isinstance(spec, ModelSpec) else spec
    options = fields.get("options") if isinstance(fields, Mapping) else None
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options) or len(fields) != 3:
        raise InputError(f"A network's spec is what its spec.to_dict() returned, not {shown(spec)}.")
    return build(fields.get("name", ""), fields.get("n_classes", 0), **options)

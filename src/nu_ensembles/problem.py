"""The user's data, checked and scaled once, and the network and method that fit them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from nu_ensembles import models
from nu_ensembles.errors import InputError
from nu_ensembles.inputs import Unlabeled, check_labels, check_rows, check_weights
from nu_ensembles.methods import AnyMethod, Nu, Procedure, Standard
from nu_ensembles.models import Model, logits_and_features, variable_shapes
from nu_ensembles.preprocessing import Standardisation, check_kind, network_rows


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Checked data, ready for the engine: x `[N, …]` float32 or uint8, codes int32 `[N]`, weight `[N]`.

    row_numbers: `[N]`, where the rows stood in what the user gave.
    """

    x: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    x_unlabeled: np.ndarray | None
    classes: np.ndarray
    standardisation: Standardisation | None
    row_numbers: np.ndarray

    @property
    def n_unlabeled(self) -> int:
        return 0 if self.x_unlabeled is None else len(self.x_unlabeled)

    @property
    def pixels(self) -> bool:
        """Whether the rows are bytes, which the network gets as x/255."""
        return self.x.dtype == np.uint8

    def part(self, rows: np.ndarray) -> Problem:
        """The problem of these labelled rows alone; the unlabelled ones stay."""
        x, codes, weight, numbers = self.x[rows], self.codes[rows], self.weight[rows], self.row_numbers[rows]
        return dataclasses.replace(self, x=x, codes=codes, weight=weight, row_numbers=numbers)

    def rows(self, x: Any, name: str) -> np.ndarray:
        """Further rows (validation data), checked and scaled as the training rows were."""
        x = check_rows(x, name, self.x.shape[1:])
        if self.standardisation is None:
            check_kind(x, self.pixels, name)
        return network_rows(x, self.standardisation)


def prepare(
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool = False,
    row_numbers: np.ndarray | None = None,
    names: tuple[str, str] = ("X", "X_unlabeled"),
) -> Problem:
    """Checks the data, drops rows without weight, and scales the inputs."""
    if isinstance(x_unlabeled, Unlabeled):
        x_unlabeled = x_unlabeled.rows
    x = check_rows(x, names[0])
    found, codes = check_labels(y, classes, len(x))
    weight = check_weights(sample_weight, len(x))
    counted = weight > 0
    numbers = (np.arange(len(x)) if row_numbers is None else row_numbers)[counted]
    x, codes, weight = x[counted], codes[counted], weight[counted]
    u = None
    if x_unlabeled is not None and np.shape(x_unlabeled)[:1] != (0,):
        u = check_rows(x_unlabeled, names[1], x.shape[1:])
        check_kind(u, x.dtype == np.uint8, names[1])
    scaling = Standardisation.fit(*(part for part in (x, u) if part is not None)) if standardize else None
    return Problem(
        network_rows(x, scaling),
        codes,
        weight,
        None if u is None else network_rows(u, scaling),
        found,
        scaling,
        numbers,
    )


def build_network(model: str | Model, problem: Problem, options: dict[str, Any], method: AnyMethod) -> Model:
    """The network that the method trains, after a look at its shapes: it takes the rows and gives a logit per class."""
    if isinstance(model, str):
        network = models.build(model, len(problem.classes), **options)
    elif isinstance(model, Model):
        network = model
    else:
        raise InputError(
            f"model must be a name or a nu.Model, not a {type(model).__name__}; wrap your own module with "
            "nu.models.from_linen, from_nnx or from_equinox."
        )
    x = jax.ShapeDtypeStruct((2, *problem.x.shape[1:]), np.float32)
    variables = variable_shapes(network, x.shape[1:], x.dtype)
    logits = jax.eval_shape(lambda v, x: network.apply(v, x, key=None, train=False), variables, x)
    expected = 2, len(problem.classes)
    found = getattr(logits, "shape", type(logits).__name__)
    if found != expected:
        raise InputError(
            f"The network turns two rows into {found} where {expected} is expected: one logit for each class of y."
        )
    if isinstance(method, Procedure):
        return method.network(network, problem.x.shape[1:])
    if method.uses_features:
        # A network that does not expose them is refused here, before anything is written.
        jax.eval_shape(lambda v, x: logits_and_features(network, v, x, key=None, train=False), variables, x)
    return network


def effective_method(method: AnyMethod, n_unlabeled: int) -> AnyMethod:
    """The method that will run on so many unlabelled rows.

    Without any, a nu-ensemble becomes the standard ensemble that it is at beta = 0, with a warning, and so does what
    only adds nu to something else. Every other method that takes unlabelled rows is refused: it would be another one.
    """
    if isinstance(method, type) or not hasattr(method, "effective"):
        raise InputError(
            f"method must be a name, such as 'nu', or an instance, such as nu.methods.Nu(0.01), not {method!r}."
        )
    method = method.effective()
    if not method.uses_unlabeled or n_unlabeled:
        return method
    without = method.without_unlabeled() if isinstance(method, Procedure) else None
    if isinstance(method, Nu):
        without = Standard()
    if without is None:
        raise InputError(
            f"The method {method.name!r} needs unlabelled rows, and there are none; pass some, or use another method, "
            "such as 'standard'."
        )
    fallen = "a standard ensemble" if isinstance(without, Standard) else f"{without.name!r} without random labels"
    warnings.warn(
        f"There is no unlabelled data, so {method.name!r} falls back to {fallen}; pass unlabelled rows to use it.",
        stacklevel=3,
    )
    return without


def check_pair(validation: Any) -> None:
    """Refuses what is no pair."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation must be a pair, (x, y).")


def validation_rows(problem: Problem, validation: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class numbers `[N]` of a validation set `(x, y)`, checked and scaled as the training rows were."""
    check_pair(validation)
    x = problem.rows(validation[0], "the validation x")
    return x, check_labels(validation[1], problem.classes, len(x))[1]

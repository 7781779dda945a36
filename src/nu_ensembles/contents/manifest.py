"""What the manifest of a saved ensemble may hold.

To add a field, declare it here with its check, `name: Type = stored(check, absent=…)`; `absent` is what older models,
which do not have it, mean. `ensemble/files.py` writes it when a model is saved and finds it as `manifest.name` when one
is loaded. What must agree with other fields is compared in `__post_init__`. Arrays are no matter of the manifest: they
go to the safetensors file and are taken from there with `array_of`. Raise `FORMAT` in `ensemble/files.py` if an older
version, which overlooks the field, would predict something else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nu_ensembles.contents.classes import MOST_CLASSES, check_classes
from nu_ensembles.contents.fields import (
    checksum,
    file_name,
    flag,
    form,
    listing,
    mapping,
    number,
    one_of,
    optional,
    plain,
    stored,
    text,
    unfit,
    whole,
)
from nu_ensembles.errors import InputError

MOST_MEMBERS, LONGEST_AXIS = 1_000_000, 1_000_000_000
# What the training notes of a model may hold beside what is only shown.
_TRAINING = {"dtype": one_of("float32", "float64"), "method": text(200), "n_steps": whole(1)}


def _layer_option(value: Any, where: str) -> Any:
    """An option of a built-in network: a number, a word, or a list of sizes."""
    if isinstance(value, list):
        return list(listing(whole(1, LONGEST_AXIS), most=10_000)(value, where))
    if isinstance(value, str | bool | None):
        return value if value is None or isinstance(value, bool) else text(200)(value, where)
    return number()(value, where)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkForm:
    """A built-in network: `models.from_spec` makes it."""

    name: str = stored(text(200))
    n_classes: int = stored(whole(1, MOST_CLASSES))
    options: Mapping[str, Any] = stored(mapping(_layer_option))

    @property
    def n_layers(self) -> int:
        """At least so many arrays its weights must be; told before a network of any depth is traced."""
        lists = [len(value) for value in self.options.values() if isinstance(value, list)]
        depth = self.options.get("depth", 0)
        return max([*lists, int(depth) if isinstance(depth, int) else 0], default=0)


def _wrapper_option(value: Any, where: str) -> Any:
    """An option of what is around a network: a number, a word, or a list of words."""
    return (
        list(listing(text(200), most=10_000)(value, where)) if isinstance(value, list) else _layer_option(value, where)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrapperForm:
    """What is around the network: `models.wrapped` makes it."""

    name: str = stored(text(200))
    options: Mapping[str, Any] = stored(mapping(_wrapper_option))


def _share(value: Any, where: str) -> float:
    """A number from 0 to 1."""
    share = number()(value, where)
    if not 0 <= share <= 1:
        raise unfit(where, "a number from 0 to 1", share)
    return share


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompanionForm:
    """What is pooled with the networks; its trees are arrays of the file of weights."""

    kind: str = stored(one_of("forest"))
    weight: float = stored(_share)
    temperature: float = stored(number(above=0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightsForm:
    """The file of arrays beside the manifest."""

    file: str = stored(file_name)
    sha256: str = stored(checksum)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """See the fields of `nu.Ensemble`."""

    format: int = stored(whole(1))
    package: str = stored(text(200))
    model: NetworkForm | None = stored(optional(form(NetworkForm)))
    # Versions up to 4 know of nothing around a network.
    wrapper: WrapperForm | None = stored(optional(form(WrapperForm)), absent=None)
    n_members: int = stored(whole(1, MOST_MEMBERS))
    # Version 1 has as many networks as members.
    n_networks: int | None = stored(optional(whole(1, MOST_MEMBERS)), absent=None)
    row_shape: tuple[int, ...] = stored(listing(whole(1, LONGEST_AXIS), least=1, most=8))
    classes: np.ndarray = stored(check_classes)
    temperature: float = stored(number(above=0))
    # `calibration.restore` knows what the state of each calibrator holds.
    calibrator: Mapping[str, Any] | None = stored(optional(mapping(plain)), absent=None)
    companion: CompanionForm | None = stored(optional(form(CompanionForm)), absent=None)
    standardised: bool = stored(flag)
    pixels: bool = stored(flag)
    columns: tuple[str, ...] | None = stored(optional(listing(text())), absent=None)
    # The rooms that these belong to know more of them: `tables.TableEncoding.from_json`.
    table: Mapping[str, Any] | None = stored(optional(mapping(plain)), absent=None)
    training: Mapping[str, Any] = stored(mapping(plain, _TRAINING))
    history: tuple[Mapping[str, Any], ...] = stored(listing(mapping(plain)))
    weights: WeightsForm = stored(form(WeightsForm))

    def __post_init__(self) -> None:
        n_classes, n_rows = len(self.classes), math.prod(self.row_shape)
        if self.model is not None and self.model.n_classes != n_classes:
            raise InputError(f"it names {n_classes} classes for a network of {self.model.n_classes}; restore it.")
        if n_rows > LONGEST_AXIS:
            raise InputError(f"a row of shape {self.row_shape} is larger than any that trains; restore it.")
        if self.companion is not None and len(self.row_shape) != 1:
            raise InputError(f"a companion is pooled with networks of rows of shape {self.row_shape}; restore it.")
        if self.columns is not None and self.table is None and (len(self.columns),) != self.row_shape:
            raise InputError(f"it names {len(self.columns)} columns for rows of shape {self.row_shape}; restore it.")


def array_of(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], kind: str, where: str, above: float = -math.inf
) -> np.ndarray:
    """An array of the file, after a look at its shape, its kind and its values.

    Args:
      kind: of its type: "f" floating, "u" unsigned, …
      where: the file, to begin sentences with.
      above: what all of its values must be greater than.
    """
    found = arrays.get(name)
    wanted = f"an array {list(shape)} of the kind {kind!r}"
    if found is None or found.shape != shape or found.dtype.kind != kind:
        raise unfit(f"{where}: {name!r}", wanted, None if found is None else f"{found.dtype}{list(found.shape)}")
    if kind == "f" and found.size and not (np.isfinite(found).all() and (found > above).all()):
        raise unfit(f"{where}: {name!r}", "finite" if above == -math.inf else f"finite and above {above:g}", "that")
    return found


def refuse_not_finite(arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Raises if any number of the weights is NaN or infinite: such a network answers nothing."""
    for name, array in arrays.items():
        # The extremes tell, and need no array of booleans; NaN is both of them.
        if array.dtype.kind == "f" and array.size and not np.isfinite([array.min(), array.max()]).all():
            raise unfit(f"{where}: {name!r}", "finite numbers", "that")

"""What an ensemble is to those that take it elsewhere: `nu.Ensemble`, as far as this room looks at it."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from nu_ensembles.calibration import FittedCalibrator
from nu_ensembles.companion import Companion
from nu_ensembles.models import Model, from_spec
from nu_ensembles.problem import Standardisation
from nu_ensembles.tables import TableEncoding


class Exportable(Protocol):
    """See `nu.Ensemble`."""

    @property
    def model(self) -> Model: ...

    @property
    def params(self) -> Any: ...

    @property
    def model_state(self) -> Any: ...

    @property
    def classes(self) -> np.ndarray: ...

    @property
    def row_shape(self) -> tuple[int, ...]: ...

    @property
    def standardisation(self) -> Standardisation | None: ...

    @property
    def pixels(self) -> bool: ...

    @property
    def columns(self) -> tuple[str, ...] | None: ...

    @property
    def encoding(self) -> TableEncoding | None: ...

    @property
    def temperature(self) -> float: ...

    @property
    def calibrator(self) -> FittedCalibrator | None: ...

    @property
    def companion(self) -> Companion | None: ...

    @property
    def mask_keys(self) -> np.ndarray | None: ...

    @property
    def training(self) -> dict[str, Any]: ...

    @property
    def n_members(self) -> int: ...

    def _rows(self, x: Any) -> Any: ...

    def _network_rows(self, part: Any, first_row: int = 0) -> np.ndarray: ...

    def predict_members(self, x: Any, batch_size: int | None = None) -> np.ndarray: ...

    def predict_proba(self, x: Any, batch_size: int | None = None) -> np.ndarray: ...


def in_float32(ensemble: Any) -> Any:
    """The same ensemble with products in float32: what was trained in bfloat16 on a GPU is not tied to one afterwards.

    Elsewhere half precision is slow, missing, or rounded otherwise.
    """
    spec = ensemble.model.spec
    if spec is None or dict(spec.options).get("dtype") in (None, "float32"):
        return ensemble
    fields = spec.to_dict()
    model = from_spec({**fields, "options": {**fields["options"], "dtype": "float32"}})
    return dataclasses.replace(ensemble, model=model)

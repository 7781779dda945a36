"""`Ensemble.to_torch`: the ensemble as an `nn.Module` from rows to calibrated probabilities; needs PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import torch
from torch import Tensor, nn

from nu_ensembles.errors import InputError
from nu_ensembles.export.torch_networks import BUILT_IN
from nu_ensembles.models import from_torch
from nu_ensembles.models.torch_import.exporting import logits_of, set_mode

_TINY = float(np.finfo(np.float32).tiny)
_CALIBRATED = ("none", "temperature", "smoothed_temperature", "vector_scaling", "matrix_scaling")


class TorchEnsemble(nn.Module):
    """Members and what stands around them.

    Attributes:
      members: a network for each, from scaled rows to logits.
      mean, scale: of the standardisation.
      classes: in the order of the probabilities.
    """

    def __init__(self, ensemble: Any, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.classes = ensemble.classes.tolist()
        self.pixels = ensemble.pixels
        self.temperature = float(ensemble.temperature)
        self.calibrator = ensemble.calibrator
        scaling = ensemble.standardisation
        self.register_buffer("mean", None if scaling is None else torch.from_numpy(np.asarray(scaling.mean)))
        self.register_buffer("scale", None if scaling is None else torch.from_numpy(np.asarray(scaling.scale)))

    def forward(self, x: Tensor) -> Tensor:
        """Rows `[N, …]`, as `predict_proba` takes them in an array, to calibrated probabilities `[N, C]`."""
        probs = self.predict_members(x).mean(dim=0)
        if self.calibrator is not None:
            probs = _calibrated(self.calibrator, probs)
        return probs if self.temperature == 1 else _scaled(probs, self.temperature)

    def predict_members(self, x: Tensor) -> Tensor:
        """Each member's probabilities, `[K, N, C]`."""
        if self.scales:
            x = ((x.double() - self.get_buffer("mean")) / self.get_buffer("scale")).float()
        else:
            x = x.float() / 255 if x.dtype == torch.uint8 else x.float()
        # As the ensemble has it: no probability is zero.
        return torch.stack([torch.softmax(member(x), dim=-1).clamp(min=_TINY) for member in self.members])

    @property
    def scales(self) -> bool:
        """Whether rows are standardised first."""
        return self._buffers["mean"] is not None


def torch_module(ensemble: Any) -> TorchEnsemble:
    """See `Ensemble.to_torch`."""
    if ensemble.mask_keys is not None:
        raise InputError("Members that are dropout masks have no PyTorch form; use export(format='onnx').")
    if ensemble.companion is not None:
        raise InputError("An ensemble with a companion forest has no PyTorch form; use export(format='onnx').")
    if ensemble.calibrator is not None and ensemble.calibrator.name not in _CALIBRATED:
        raise InputError(f"The calibrator {ensemble.calibrator.name!r} has no PyTorch form; use export(format='onnx').")
    variables = jax.tree.map(np.asarray, (ensemble.params, ensemble.model_state))
    of_members = [jax.tree.map(lambda leaf, at=at: leaf[at], variables) for at in range(ensemble.n_members)]
    model = ensemble.model
    if model.spec is not None:
        ramps = {"ramps": True} if dict(model.spec.options).get("ramps") else {}
        members = [BUILT_IN[model.spec.name](params["params"], **ramps) for params, _ in of_members]
    elif isinstance(model.made_by, functools.partial) and model.made_by.func is from_torch:
        members = [_imported(model.made_by, *variables) for variables in of_members]
    else:
        raise InputError(
            "to_torch knows the built-in networks and those of models.from_torch; use export(format='onnx') for others."
        )
    return TorchEnsemble(ensemble, members).eval()


class _Logits(nn.Module):
    """A network of the user's own, given images in its order."""

    def __init__(self, network: nn.Module, channels_last: bool) -> None:
        super().__init__()
        self.network, self.channels_last = network, channels_last

    def forward(self, x: Tensor) -> Tensor:
        return logits_of(self.network(x.movedim(-1, 1) if self.channels_last and x.ndim > 2 else x))


def _imported(made_by: functools.partial[Any], params: Any, state: Any) -> nn.Module:
    network = made_by.args[0]()
    values = {**params["params"], **state.get("buffers", {})}
    with torch.no_grad():
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            if name in values:
                tensor.copy_(torch.from_numpy(np.array(values[name])))
    set_mode(network, False)
    return _Logits(network, made_by.keywords["channels_last"])


def _log(probs: Tensor) -> Tensor:
    return torch.log(probs.clamp(min=_TINY))


def _scaled(probs: Tensor, temperature: float) -> Tensor:
    return torch.softmax(_log(probs) / temperature, dim=-1)


def _calibrated(calibrator: Any, probs: Tensor) -> Tensor:
    """The calibrators of `calibration/`, by their formulas there."""
    if calibrator.name == "none":
        return probs
    scaled = _scaled(probs, calibrator.temperature)
    if calibrator.name == "temperature":
        return scaled
    share = calibrator.share
    mixed = (1.0 - share) * scaled + share / probs.shape[1]
    if calibrator.name == "smoothed_temperature":
        return mixed

    def constant(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(array, np.float32)).to(probs.device)

    if calibrator.name == "vector_scaling":
        return torch.softmax(constant(calibrator.scale) * _log(mixed) + constant(calibrator.shift), dim=1)
    return torch.softmax(_log(mixed) @ constant(calibrator.matrix.T) + constant(calibrator.shift), dim=1)

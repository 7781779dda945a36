"""The built-in networks as PyTorch modules, with the weights of one member; needs PyTorch.

Images come as they do here, `[B, H, W, C]`, and are turned to PyTorch's order inside. Parameters are found by the names
that the networks' own files give them.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.linalg import block_diag
from torch import Tensor, nn
from torch.nn import functional

from nu_ensembles.models.ramps import BOUND, FARTHEST, KNOTS

Weights = Mapping[str, Any]


def _parameter(array: Any) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)))


class Dense(nn.Module):
    """`x @ kernel + bias`; groups that do not meet are blocks of one kernel."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        kernel = np.asarray(weights["kernel"])
        self.weight = _parameter((block_diag(*kernel) if kernel.ndim == 3 else kernel).T)
        self.bias = _parameter(weights["bias"])

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class SameConvolution(nn.Module):
    """A convolution whose result has a pixel for every `stride` of the image, as JAX pads for it: more at the end."""

    def __init__(self, kernel: Any, stride: int = 1, bias: Any = None) -> None:
        super().__init__()
        self.weight = _parameter(np.asarray(kernel).transpose(3, 2, 0, 1))
        self.bias = None if bias is None else _parameter(bias)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        size, pads = self.weight.shape[-1], []
        for n in (x.shape[-1], x.shape[-2]):
            missing = max((-(-n // self.stride) - 1) * self.stride + size - n, 0)
            pads += [missing // 2, missing - missing // 2]
        return functional.conv2d(functional.pad(x, pads), self.weight, self.bias, self.stride)


def _numbered(weights: Weights, name: str) -> list[Weights]:
    """`Dense_0`, `Dense_1`, …"""
    return [weights[f"{name}_{at}"] for at in range(sum(each.startswith(f"{name}_") for each in weights))]


def _channels_first(x: Tensor) -> Tensor:
    return x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)


def ramped(x: Tensor) -> Tensor:
    """See `models/ramps.py`."""
    x = x.clamp(-FARTHEST, FARTHEST)
    bounded = x / torch.sqrt(1 + torch.square(x / BOUND))
    ramps = [((bounded - a) / (b - a)).clamp(0, 1) - 0.5 for a, b in itertools.pairwise(KNOTS)]
    return torch.cat([bounded, *ramps], dim=-1)


class TorchMLP(nn.Module):
    def __init__(self, weights: Weights, ramps: bool = False) -> None:
        super().__init__()
        self.ramps = ramps
        self.layers = nn.ModuleList(Dense(each) for each in _numbered(weights, "Dense"))

    def forward(self, x: Tensor) -> Tensor:
        h = ramped(x.flatten(1)) if self.ramps else x.flatten(1)
        *hidden, last = self.layers
        for layer in hidden:
            h = functional.relu(layer(h))
        return last(h)


class TorchLeNet(nn.Module):
    def __init__(self, weights: Weights) -> None:
        super().__init__()
        convolutions = _numbered(weights, "Conv")
        self.convolutions = nn.ModuleList(SameConvolution(each["kernel"], bias=each["bias"]) for each in convolutions)
        self.hidden, self.last = (Dense(each) for each in _numbered(weights, "Dense"))

    def forward(self, x: Tensor) -> Tensor:
        h = _channels_first(x)
        for convolution in self.convolutions:
            h = functional.avg_pool2d(functional.relu(convolution(h)), 2)
        # Flattened in the order in which it was trained: rows, columns, channels.
        return self.last(functional.relu(self.hidden(h.permute(0, 2, 3, 1).flatten(1))))


class TorchFixupBlock(nn.Module):
    """x + multiplier * conv(relu(conv(relu(x + bias)) + bias) + bias) + bias"""

    def __init__(self, weights: Weights, stride: int) -> None:
        super().__init__()
        self.biases = nn.ParameterList(_parameter(each["fixup_bias"]) for each in _numbered(weights, "FixupBias"))
        self.multiplier = _parameter(weights["FixupMultiplier_0"]["fixup_multiplier"])
        self.first = SameConvolution(weights["Conv_0"]["kernel"], stride)
        self.second = SameConvolution(weights["Conv_1"]["kernel"])
        self.shortcut = SameConvolution(weights["Conv_2"]["kernel"], stride) if "Conv_2" in weights else None

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(x + self.biases[0])
        shortcut = x if self.shortcut is None else self.shortcut(h)
        h = functional.relu(self.first(h) + self.biases[1]) + self.biases[2]
        return shortcut + self.multiplier * self.second(h) + self.biases[3]


class TorchWideResNet(nn.Module):
    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.stem = SameConvolution(weights["conv1"]["kernel"])
        self.before = _parameter(weights["bias1"]["fixup_bias"])
        self.after = _parameter(weights["bias2"]["fixup_bias"])
        blocks = []
        for stage in (1, 2, 3):
            for at, block in enumerate(_numbered(weights[f"block{stage}"], "FixupBasicBlock")):
                blocks.append(TorchFixupBlock(block, 2 if stage > 1 and at == 0 else 1))
        self.blocks = nn.ModuleList(blocks)
        self.last = Dense(weights["fc"])

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(_channels_first(x) + self.before)
        for block in self.blocks:
            h = block(h)
        return self.last(functional.relu(h).mean(dim=(2, 3)) + self.after)


BUILT_IN: dict[str, type[nn.Module]] = {
    "mlp": TorchMLP,
    "mlp_large": TorchMLP,
    "lenet": TorchLeNet,
    "wide_resnet": TorchWideResNet,
}

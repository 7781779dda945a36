"""The published networks in PyTorch, and the ways in which its users train several of them.

  loop            member after member, each with an optimiser of its own: what every library of ensembles does
  vmap            `torch.func`: parameters stacked, one vectorised gradient, one optimiser
  compiled graph  the same, compiled, the whole step replayed as a CUDA graph

Data stay on the device; batches, flips and crops are drawn there.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH, N_LABELLED, N_UNLABELLED, N_CLASSES, BETA = 32, 1000, 5000, 10, 0.01


class FixupBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(4)])
        self.multiplier = nn.Parameter(torch.ones(1))
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.project = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if n_in != n_out else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(x + self.biases[0])
        shortcut = x if self.project is None else self.project(h)
        h = functional.relu(self.first(h) + self.biases[1])
        h = self.dropout(h + self.biases[2])
        return shortcut + self.second(h) * self.multiplier + self.biases[3]


class WideResNet(nn.Module):
    """WRN-`depth`-`widen` with Fixup."""

    def __init__(self, depth: int, widen: int, dropout: float = 0.3) -> None:
        super().__init__()
        blocks, n_in = [], 16
        for stage in range(3):
            n_out = 16 * widen * 2**stage
            for block in range((depth - 4) // 6):
                blocks.append(FixupBlock(n_in, n_out, 2 if stage and block == 0 else 1, dropout))
                n_in = n_out
        self.stem, self.blocks = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.Sequential(*blocks)
        self.before, self.after = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.last = nn.Linear(n_in, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.blocks(self.stem(x + self.before)))
        return self.last(h.mean((2, 3)) + self.after)


def network(name: str) -> nn.Module:
    """ "mlp_large", "lenet" or "wrn-DEPTH-WIDTH", for 32x32 images `[B, 3, 32, 32]`."""
    if name == "mlp_large":
        sizes = (3 * 32 * 32, 784, 500, 300)
        hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(sizes[-1], N_CLASSES))
    if name == "lenet":
        convolutions = [
            layer
            for a, b in ((3, 32), (32, 64))
            for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        ]
        return nn.Sequential(
            *convolutions, nn.Flatten(), nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, N_CLASSES)
        )
    _, depth, widen = name.split("-")
    return WideResNet(int(depth), int(widen))


@dataclasses.dataclass(frozen=True)
class Data:
    """Images as bytes `[N, 3, 32, 32]`, labels, and every member's random labels `[K, M]`, on a device."""

    x: Tensor
    y: Tensor
    u: Tensor
    targets: Tensor

    @staticmethod
    def random(n_members: int, device: str) -> Data:
        generator = torch.Generator().manual_seed(0)

        def images(n: int) -> Tensor:
            return torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator).to(device)

        labels = torch.randint(0, N_CLASSES, (N_LABELLED,), generator=generator).to(device)
        targets = torch.randint(0, N_CLASSES, (n_members, N_UNLABELLED), generator=generator).to(device)
        return Data(images(N_LABELLED), labels, images(N_UNLABELLED), targets)

    def batch(self, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """n augmented labelled images, their labels, n unlabelled ones and their rows."""
        rows = torch.randint(0, len(self.x), (n,), device=self.x.device)
        unlabelled = torch.randint(0, len(self.u), (n,), device=self.x.device)
        return (
            flipped_and_cropped(self.x[rows].float() / 255),
            self.y[rows],
            self.u[unlabelled].float() / 255,
            unlabelled,
        )


def flipped_and_cropped(x: Tensor, padding: int = 4) -> Tensor:
    """A flip with probability one half, zero padding and a random crop of every image `[B, C, H, W]`."""
    n, _, height, width = x.shape
    x = torch.where(torch.rand(n, 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)
    x = functional.pad(x, (padding,) * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2, n, 1), device=x.device)
    rows = top + torch.arange(height, device=x.device)
    columns = left + torch.arange(width, device=x.device)
    image = torch.arange(n, device=x.device)[:, None, None]
    return x.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def loss_of(logits: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    logits = logits.float()
    n = y.shape[0]
    return functional.cross_entropy(logits[:n], y) + BETA * functional.cross_entropy(logits[n:], targets)


def adamw(parameters: Any, device: str, **options: Any) -> torch.optim.AdamW:
    fused = {"fused": True} if device == "cuda" else {"foreach": True}
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-4, **fused, **options)


def precision(device: str, bf16: bool) -> Any:
    return torch.autocast(device, torch.bfloat16, enabled=bf16)


def loop(
    name: str, n_members: int, device: str, *, bf16: bool = False, channels_last: bool = False
) -> Callable[[int], None]:
    """Member after member; `advance(n_steps)`."""
    data = Data.random(n_members, device)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    members = []
    for _ in range(n_members):
        member = network(name).to(device, memory_format=layout)  # pyright: ignore[reportCallIssue]
        members.append((member, adamw(member.parameters(), device)))

    def advance(n_steps: int) -> None:
        for number, (member, optimiser) in enumerate(members):
            for _ in range(n_steps):
                x, y, u, rows = data.batch(BATCH)
                optimiser.zero_grad(set_to_none=True)
                with precision(device, bf16):
                    logits = member(torch.cat([x, u]).contiguous(memory_format=layout))
                loss_of(logits, y, data.targets[number, rows]).backward()
                optimiser.step()

    return advance


def deep_ensemble_of_torch_uncertainty(name: str, n_members: int, device: str, *, bf16: bool) -> Callable[[int], None]:
    """The deep ensemble of torch-uncertainty: one module that calls its members in turn, all on the same batch."""
    from torch_uncertainty.methods import deep_ensembles  # pyright: ignore[reportMissingImports]

    data = Data.random(n_members, device)
    ensemble = deep_ensembles([network(name) for _ in range(n_members)]).to(device)
    optimiser = adamw(ensemble.parameters(), device)

    def advance(n_steps: int) -> None:
        for _ in range(n_steps):
            x, y, u, rows = data.batch(BATCH)
            optimiser.zero_grad(set_to_none=True)
            with precision(device, bf16):
                logits = ensemble(torch.cat([x, u])).reshape(n_members, 2 * BATCH, N_CLASSES)
            loss = sum(loss_of(logits[member], y, data.targets[member, rows]) for member in range(n_members))
            loss.backward()  # pyright: ignore[reportAttributeAccessIssue]
            optimiser.step()

    return advance


def vectorised(
    name: str, n_members: int, device: str, *, bf16: bool = False, compiled: bool = False, graph: bool = False
) -> Callable[[int], None]:
    """All members at once by `torch.func`; compiled, and replayed as a CUDA graph, if asked."""
    from torch.func import functional_call, grad, stack_module_state, vmap

    data = Data.random(n_members, device)
    parameters, buffers = stack_module_state([network(name).to(device) for _ in range(n_members)])
    skeleton = copy.deepcopy(network(name)).to("meta")

    def one_member(parameters: dict[str, Tensor], x: Tensor, y: Tensor, u: Tensor, targets: Tensor) -> Tensor:
        with precision(device, bf16):
            logits = functional_call(skeleton, (parameters, buffers), (torch.cat([x, u]),))
        return loss_of(logits, y, targets)

    gradients = vmap(grad(one_member), randomness="different")
    if compiled:
        gradients = torch.compile(gradients)
    optimiser = adamw(parameters.values(), device, **({"capturable": True} if graph else {}))
    member = torch.arange(n_members, device=device)[:, None]

    def step() -> None:
        x, y, u, rows = (part.reshape(n_members, BATCH, *part.shape[1:]) for part in data.batch(n_members * BATCH))
        found = gradients(parameters, x, y, u, data.targets[member, rows])
        for key, parameter in parameters.items():
            parameter.grad = found[key].to(parameter.dtype)
        optimiser.step()

    captured = None
    if graph:
        # Capture wants a few ordinary calls on a stream of its own first.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step()

    def advance(n_steps: int) -> None:
        # The graph reads and writes the tensors that `step` holds, so this function holds on to both.
        for _ in range(n_steps):
            step() if captured is None else captured.replay()

    return advance

"""Ten members of an imported PyTorch network against the same network in Flax, and against a PyTorch loop over members.

    python benchmarks/imported_networks.py [--only LeNet] [--members 10] [--quick] [--out FILE]

The same work on all sides: batches of 32 labelled and 32 unlabelled rows, the nu loss, forward, backward, AdamW. The
sides take turns and medians are compared, of time on the clock and of processor time, which others on the machine
change less. Compilation is left out and recorded beside. The loop has as many threads as there are cores, or one,
whichever is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as linen
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn

import nu_ensembles as nu
from nu_ensembles.diagnostics.rehearsal import Rehearsal
from nu_ensembles.models.convolution import conv_general_dilated
from recording import Recording

BATCH, N_LABELLED, N_UNLABELLED, N_CLASSES, BETA, ROUNDS = 32, 1000, 5000, 10, 0.01, 3
WIDTHS = (16, 32, 64)


class Residual(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        stride = 1 if n_in == n_out else 2
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        projected = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
        self.shortcut = nn.Identity() if n_in == n_out else projected

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def torch_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, N_CLASSES))


def torch_lenet() -> nn.Module:
    convolutions = [
        layer for a, b in ((3, 32), (32, 64)) for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
    ]
    dense = [nn.Flatten(), nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, N_CLASSES)]
    return nn.Sequential(*convolutions, *dense)


def torch_resnet() -> nn.Module:
    stem = [nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU()]
    blocks = [Residual(a, b) for a, b in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], N_CLASSES))


class FlaxResNet(linen.Module):
    """`torch_resnet`, for images `[H, W, C]`."""

    @linen.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        def normalised(h: Any) -> Any:
            return linen.BatchNorm(use_running_average=not train, momentum=0.9)(h)

        def convolved(h: Any, width: int, size: int = 3, stride: int = 1) -> Any:
            layer = linen.Conv(
                width,
                (size, size),
                stride,
                [(size // 2, size // 2)] * 2,
                use_bias=False,
                conv_general_dilated=conv_general_dilated,
            )
            return normalised(layer(h))

        h = linen.relu(convolved(x, WIDTHS[0]))
        for width in WIDTHS:
            stride = 1 if h.shape[-1] == width else 2
            body = convolved(linen.relu(convolved(h, width, 3, stride)), width)
            h = linen.relu(body + (h if stride == 1 else convolved(h, width, 1, stride)))
        return linen.Dense(N_CLASSES)(jnp.mean(h, axis=(1, 2)))


# The network in PyTorch, the same in Flax, the shapes of their rows, steps of a round.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], tuple[int, ...], tuple[int, ...], int]] = {
    "MLP 64-64": (torch_mlp, lambda: nu.models.mlp(N_CLASSES), (64,), (64,), 100),
    "LeNet": (torch_lenet, lambda: nu.models.lenet(N_CLASSES, dtype="float32"), (3, 32, 32), (32, 32, 3), 2),
    "ResNet with BatchNorm": (torch_resnet, lambda: nu.models.from_linen(FlaxResNet()), (3, 32, 32), (32, 32, 3), 1),
}


def in_jax(model: Any, row_shape: tuple[int, ...], n_members: int) -> tuple[Callable[[int], float], float, int]:
    """Milliseconds of so many further steps, the seconds that compilation took, and how many groups train in turn.

    The first group is timed, and counted as often as there are groups.
    """
    rehearsal = Rehearsal(
        model, row_shape, nu.methods.Nu(beta=BETA), n_members, n_rows=N_LABELLED, n_unlabeled=N_UNLABELLED
    )
    return rehearsal.advance, rehearsal.compile_s, rehearsal.n_groups


def torch_loop(make: Callable[[], nn.Module], row_shape: tuple[int, ...], n_members: int) -> Callable[[int], float]:
    """Member after member, each with its own optimiser and batches."""
    rng = np.random.default_rng(0)

    def rows(n: int) -> torch.Tensor:
        if len(row_shape) == 1:
            return torch.from_numpy(rng.standard_normal((n, *row_shape), np.float32))
        return torch.from_numpy(rng.integers(0, 256, (n, *row_shape), np.uint8))

    def as_floats(x: torch.Tensor) -> torch.Tensor:
        return x if x.is_floating_point() else x.float() / 255

    x, u = rows(N_LABELLED), rows(N_UNLABELLED)
    y = torch.randint(0, N_CLASSES, (N_LABELLED,))
    labels = torch.randint(0, N_CLASSES, (n_members, N_UNLABELLED))
    networks = [make() for _ in range(n_members)]
    members = [(each, torch.optim.AdamW(each.parameters(), lr=1e-3, weight_decay=1e-4)) for each in networks]
    loss_of = nn.functional.cross_entropy

    def advance(n_steps: int) -> float:
        begun = time.perf_counter()
        for number, (network, optimiser) in enumerate(members):
            for _ in range(n_steps):
                own, other = torch.randint(0, N_LABELLED, (BATCH,)), torch.randint(0, N_UNLABELLED, (BATCH,))
                optimiser.zero_grad(set_to_none=True)
                logits = network(as_floats(torch.cat([x[own], u[other]])))
                loss = loss_of(logits[:BATCH], y[own]) + BETA * loss_of(logits[BATCH:], labels[number, other])
                loss.backward()
                optimiser.step()
        return (time.perf_counter() - begun) / n_steps * 1e3

    return advance


def compared(label: str, n_members: int, rounds: int) -> dict[str, float]:
    make, in_flax, torch_shape, flax_shape, n_steps = NETWORKS[label]
    imported, imported_s, n_groups = in_jax(nu.models.from_torch(make, (1, *torch_shape)), torch_shape, n_members)
    flax, flax_s, n_flax_groups = in_jax(in_flax(), flax_shape, n_members)
    loop, n_threads = torch_loop(make, torch_shape, n_members), torch.get_num_threads()

    def loop_with(threads: int) -> Callable[[int], float]:
        def advance(n_steps: int) -> float:
            torch.set_num_threads(threads)
            return loop(n_steps)

        return advance

    sides = {"imported": imported, "flax": flax, "loop, all threads": loop_with(n_threads), "loop": loop_with(1)}
    groups = {"imported": n_groups, "flax": n_flax_groups}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for side in sides.values():
        side(1)
    for _ in range(rounds):
        for name, side in sides.items():
            begun = time.process_time()
            ms = side(n_steps)
            times[name].append((ms, 1e3 * (time.process_time() - begun) / n_steps * groups.get(name, 1)))
    ms, cpu_ms = (
        {name: statistics.median(each[at] for each in found) for name, found in times.items()} for at in (0, 1)
    )
    loop_side = min(("loop", "loop, all threads"), key=lambda name: ms[name])
    return {
        "imported_ms": ms["imported"],
        "flax_ms": ms["flax"],
        "torch_loop_ms": ms[loop_side],
        "imported_cpu_ms": cpu_ms["imported"],
        "flax_cpu_ms": cpu_ms["flax"],
        "torch_loop_cpu_ms": cpu_ms[loop_side],
        "torch_threads": 1 if loop_side == "loop" else n_threads,
        "imported_compile_s": imported_s,
        "flax_compile_s": flax_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one round, to another file")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command, key = "python benchmarks/imported_networks.py", ("network", "members")
    recording = Recording("imported-networks", command, key, options.out, options.quick, torch=torch.__version__)
    for label in NETWORKS:
        if options.only.lower() not in label.lower():
            continue
        found = compared(label, options.members, 1 if options.quick else ROUNDS)
        recording.add({"network": label, "members": options.members} | found)
        print(
            f"{label}: imported {found['imported_ms']:.2f} ms a step, Flax {found['flax_ms']:.2f} "
            f"({found['imported_ms'] / found['flax_ms']:.2f} times as long), PyTorch loop {found['torch_loop_ms']:.2f} "
            f"({found['torch_loop_ms'] / found['imported_ms']:.2f} times as long as imported)",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Ten members as one program against what a user would write instead: a PyTorch loop over members.

    python benchmarks/members_vs_torch_loop.py [--out results/members-vs-torch-loop.json]

The same work on both sides: K members, batches of 32 labelled (and, for nu, 32 unlabelled) rows drawn at random,
forward, backward, AdamW, the same network and step count; compilation is left out on our side (it is printed). The
sides take turns and the ratio of medians is reported, since absolute times on a shared machine mean little. The loop
runs with one thread and with all of them, and the faster counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch

import nu_ensembles as nu
from nu_ensembles.engine.assembly import Settings, label_key, member_lanes, on_device
from nu_ensembles.engine.run import Run
from nu_ensembles.problem import random_key
from nu_ensembles.training.run_folder import environment

BATCH, N_LABELLED, N_UNLABELLED = 32, 1000, 5000


def data(n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_LABELLED, n_features)).astype(np.float32)
    u = rng.normal(size=(N_UNLABELLED, n_features)).astype(np.float32)
    return x, rng.integers(0, 10, N_LABELLED).astype(np.int32), u


def ours(hidden: tuple[int, ...], n_features: int, n_members: int, beta: float) -> tuple[Callable[[int], None], float]:
    """A function that trains for so many more steps, and the seconds that compilation took."""
    x, y, u = data(n_features)
    method = nu.methods.Nu(beta=beta).effective()
    settings, key = Settings(batch_size=BATCH), random_key(0)
    targets = method.unlabeled_targets(label_key(key), len(u), 10, n_members)
    on = on_device(x, y, np.ones(len(x), np.float32), u if method.uses_unlabeled else None, targets)
    program = settings.program(nu.models.mlp(10, hidden=hidden), len(x), len(u))
    start = time.perf_counter()
    run = Run(program, member_lanes(key, range(n_members), len(x), method, settings), on)
    run.advance(1)
    jax.block_until_ready(run.state)
    seconds = time.perf_counter() - start

    def advance(n_steps: int) -> None:
        run.advance(run.step + n_steps)
        jax.block_until_ready(run.state)

    return advance, seconds


def torch_loop(hidden: tuple[int, ...], n_features: int, n_members: int, beta: float) -> Callable[[int], None]:
    """The loop over members, each with its own optimiser and its own batches."""
    x, y, u = (torch.from_numpy(array) for array in data(n_features))
    y = y.long()
    labels = torch.randint(0, 10, (n_members, len(u)))
    members = []
    for _ in range(n_members):
        sizes = (n_features, *hidden)
        layers = [m for i in range(len(hidden)) for m in (torch.nn.Linear(sizes[i], sizes[i + 1]), torch.nn.ReLU())]
        network = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 10))
        members.append((network, torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-4)))
    loss_of = torch.nn.functional.cross_entropy

    def advance(n_steps: int) -> None:
        for number, (network, optimiser) in enumerate(members):
            for _ in range(n_steps):
                rows = torch.randint(0, len(x), (BATCH,))
                optimiser.zero_grad(set_to_none=True)
                if beta == 0:
                    loss = loss_of(network(x[rows]), y[rows])
                else:
                    unlabelled = torch.randint(0, len(u), (BATCH,))
                    logits = network(torch.cat([x[rows], u[unlabelled]]))
                    loss = loss_of(logits[:BATCH], y[rows])
                    loss = loss + beta * loss_of(logits[BATCH:], labels[number, unlabelled])
                loss.backward()
                optimiser.step()

    return advance


def compare(hidden: tuple[int, ...], n_features: int, n_members: int, beta: float, steps: int) -> dict[str, float]:
    advance, compile_seconds = ours(hidden, n_features, n_members, beta)
    loop = torch_loop(hidden, n_features, n_members, beta)
    loop(2)
    all_threads = torch.get_num_threads()

    def loop_with(threads: int) -> Callable[[int], None]:
        def run(n_steps: int) -> None:
            torch.set_num_threads(threads)
            loop(n_steps)

        return run

    sides = {"ours": advance, "one thread": loop_with(1), "all threads": loop_with(all_threads)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(5):
        for name, function in sides.items():
            start = time.perf_counter()
            function(steps)
            times[name].append((time.perf_counter() - start) / steps * 1e3)
    ms = {name: statistics.median(values) for name, values in times.items()}
    loop_ms = min(ms["one thread"], ms["all threads"])
    return {
        "ours_ms": ms["ours"],
        "torch_loop_ms": loop_ms,
        "ratio": loop_ms / ms["ours"],
        "compile_s": compile_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/members-vs-torch-loop.json"))
    parser.add_argument("--members", type=int, default=10)
    options = parser.parse_args()
    cases = [((64, 64), 64, 0.0, 200), ((64, 64), 64, 0.01, 200), ((784, 500, 300), 3072, 0.01, 4)]
    rows = []
    print(f"{options.members} members, ms a step (all members); ratio above 1: we are faster")
    for hidden, n_features, beta, steps in cases:
        found = compare(hidden, n_features, options.members, beta, steps)
        method = "nu" if beta else "standard"
        rows.append({"hidden": hidden, "n_features": n_features, "method": method, "members": options.members} | found)
        print(
            f"  {method:9s} MLP {n_features}-{'-'.join(map(str, hidden))}: ours {found['ours_ms']:.2f}, loop "
            f"{found['torch_loop_ms']:.2f}, ratio {found['ratio']:.2f} (compiled in {found['compile_s']:.1f} s)"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"command": "python benchmarks/members_vs_torch_loop.py", "torch": torch.__version__}
    options.out.write_text(json.dumps(about | {"environment": environment(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Ten members as one program against what a PyTorch user would write, and against the hardware's limit.

    python benchmarks/peers.py [--quick] [--only lenet] [--out FILE]

The same work on all sides: K members, 32 labelled and 32 unlabelled 32x32 images a member a step, drawn at random on
the device, flip and crop of the labelled ones, forward, backward, AdamW. Compilation and warming up are left out (ours
is recorded). The sides take turns, each in a process of its own and each turn with a first step that is not timed
(right after PyTorch's turn ours took up to a third longer on a CPU: it asks the system for its memory anew in each
step), and medians are compared. On a GPU: MLP 784-500-300 in float32 (TF32 on all sides), LeNet and WRN-22-4 in
bfloat16; on a CPU: MLP, LeNet and WRN-16-1 in float32, PyTorch with one thread and with all. The deep ensemble of
torch-uncertainty, where that is installed, hands the same batch to all members and so draws a tenth of the images.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave the other side some memory

import jax
import torch

import nu_ensembles as nu
import torch_members
from floor import Rates, floor, measured_rates
from nu_ensembles.diagnostics.rehearsal import Rehearsal
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.settings import Settings
from recording import Recording

IMAGES = (32, 32, 3)
# Label: network, options of ours.
ON_GPU: dict[str, tuple[str, dict[str, Any]]] = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, bfloat16": ("lenet", {"dtype": "bfloat16"}),
    "WRN-22-4, bfloat16": ("wrn-22-4", {"dtype": "bfloat16"}),
}
ON_CPU: dict[str, tuple[str, dict[str, Any]]] = {
    "MLP 784-500-300, float32": ("mlp_large", {}),
    "LeNet, float32": ("lenet", {}),
    "WRN-16-1, float32": ("wrn-16-1", {}),
}
# A library of deep ensembles for PyTorch; needs `pip install torch-uncertainty[cpu]`.
LIBRARY = "torch-uncertainty's deep ensemble"
Advance = Callable[[int], object]


def with_threads(advance: Advance, threads: int) -> Advance:
    def run(n_steps: int) -> None:
        torch.set_num_threads(threads)
        advance(n_steps)

    return run


def torch_sides(name: str, n_members: int) -> dict[str, Callable[[], Advance]]:
    """Ways of PyTorch on this machine, as functions that set them up."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    convolutional = name != "mlp_large"
    part = functools.partial
    library = part(torch_members.deep_ensemble_of_torch_uncertainty, name, n_members, device)
    if device == "cpu":
        cores = torch.get_num_threads()
        loops = {"loop": part(torch_members.loop, name, n_members, device)}
        if convolutional:
            loops["loop, channels last"] = part(torch_members.loop, name, n_members, device, channels_last=True)
        sides = {f"{label}, 1 thread": (lambda make=make: with_threads(make(), 1)) for label, make in loops.items()}
        loops[LIBRARY] = part(library, bf16=False)
        sides |= {
            f"{label}, {cores} threads": (lambda make=make: with_threads(make(), cores))
            for label, make in loops.items()
        }
        return sides
    sides: dict[str, Callable[[], Advance]] = {
        "loop, fp32": part(torch_members.loop, name, n_members, device),
        "loop, bf16": part(torch_members.loop, name, n_members, device, bf16=True),
    }
    if convolutional:
        sides["loop, bf16, channels last"] = part(
            torch_members.loop, name, n_members, device, bf16=True, channels_last=True
        )
    vectorised = part(torch_members.vectorised, name, n_members, device, bf16=convolutional, graph=True)
    sides["vmap + CUDA graph"] = vectorised
    if not name.startswith("wrn"):  # compiling that one takes minutes
        sides["vmap + compile + CUDA graph"] = part(vectorised, compiled=True)
    sides[LIBRARY] = part(library, bf16=convolutional)
    return sides


def milliseconds(advance: Advance, n_steps: int) -> float:
    start = time.perf_counter()
    advance(n_steps)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / n_steps * 1e3


def steps_for(advance: Advance, seconds: float, at_once: int = 1) -> int:
    """Steps that take about so long, a multiple of `at_once`, after some that warm up."""
    milliseconds(advance, 2 * at_once)
    n_rounds = round(seconds * 1e3 / milliseconds(advance, at_once) / at_once)
    return at_once * max(3, min(512 // at_once, n_rounds))


def set_up(label: str, name: str, options: dict[str, Any], n_members: int) -> tuple[Advance, int, dict[str, Any]]:
    """A side: how it advances, its steps at once, and what else there is to say about it."""
    if label != "ours":
        torch.set_float32_matmul_precision("high")  # TF32, as ours
        torch.backends.cudnn.benchmark = True
        return torch_sides(name, n_members)[label](), 1, {}
    model = nu.models.build(name, 10, **options)
    rehearsal = Rehearsal(model, IMAGES, nu.methods.Nu(0.01), n_members, Settings(augment=FlipAndCrop()))

    about = {"plan": rehearsal.plan.name, "compile_s": rehearsal.compile_s, "n_groups": rehearsal.n_groups}
    return rehearsal.advance, rehearsal.steps_at_once, about


def serve(connection: Connection, seconds: float, *side: Any) -> None:
    """In the process of a side: sets it up, then times it whenever asked. A string is the reason why it cannot."""
    try:
        advance, at_once, about = set_up(*side)
        n_steps = steps_for(advance, seconds, at_once)
        connection.send(about)
        while connection.recv():
            milliseconds(advance, at_once)  # memory and caches are as others left them
            connection.send(milliseconds(advance, n_steps))
    except Exception as error:  # a peer that does not work here is a row of its own
        connection.send(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}")


class UnavailableError(Exception):
    """A side that does not work here; why."""


class Side:
    """A side of the comparison in a process of its own.

    Attributes:
      about: what `set_up` says about it.
    """

    def __init__(self, seconds: float, *side: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, seconds, *side), daemon=True)
        self._process.start()
        theirs.close()
        self.about: dict[str, Any] = self._answer()

    def milliseconds(self) -> float:
        self._connection.send(True)
        return self._answer() * self.about.get("n_groups", 1)

    def close(self) -> None:
        self._connection.send(False)
        self._process.join()

    def _answer(self) -> Any:
        try:
            found = self._connection.recv()
        except EOFError:
            self._process.join()
            raise UnavailableError(f"its process ended with exit code {self._process.exitcode}") from None
        if isinstance(found, str):
            raise UnavailableError(found)
        return found


def compare(
    name: str, options: dict[str, Any], n_members: int, seconds: float, rounds: int, until: float
) -> dict[str, Any]:
    """Medians of all sides, in milliseconds a step of all members; reasons for those that are missing."""
    sides = {"ours": Side(seconds, "ours", name, options, n_members)}
    missing: dict[str, str] = {}
    for label in torch_sides(name, n_members):
        if time.perf_counter() > until:
            missing[label] = "no time left for it in this run"
            continue
        try:
            sides[label] = Side(seconds, label, name, options, n_members)
        except UnavailableError as error:
            missing[label] = str(error)
    times: dict[str, list[float]] = {label: [] for label in sides}
    for _ in range(rounds):
        for label, side in sides.items():
            time.sleep(0.3)  # idle threads of the other side still spin for a while
            times[label].append(side.milliseconds())
    for side in sides.values():
        side.close()
    ms = {label: statistics.median(values) for label, values in times.items()}
    about = sides["ours"].about
    return {
        "plan": about["plan"],
        "compile_s": about["compile_s"],
        "ours_ms": ms.pop("ours"),
        "peers_ms": ms,
        "missing": missing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--quick", action="store_true", help="few steps, to see that it runs")
    parser.add_argument("--seconds", type=float, default=0.8, help="of each side in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which no further side is set up")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 0.05, 1
    on_gpu = jax.default_backend() != "cpu"
    until = time.perf_counter() + options.limit
    key = ("network", "members")
    recording = Recording(
        "peers", "python benchmarks/peers.py", key, options.out, options.quick, torch=torch.__version__
    )
    rates: dict[str, Rates] = {}
    for label, (name, network_options) in (ON_GPU if on_gpu else ON_CPU).items():
        if options.only.lower() not in label.lower():
            continue
        dtype = network_options.get("dtype", "float32")
        if dtype not in rates:
            rates[dtype] = measured_rates(dtype)
            print(f"{dtype}: {rates[dtype].flops / 1e9:.4g} GFLOP/s, {rates[dtype].bytes / 1e9:.4g} GB/s", flush=True)
        least = floor(nu.models.build(name, 10, **network_options), IMAGES, 64, options.members, rates[dtype])
        found = compare(name, network_options, options.members, options.seconds, options.rounds, until)
        loops = [ms for peer, ms in found["peers_ms"].items() if peer.startswith("loop")]
        ratio = min(loops) / found["ours_ms"] if loops else None
        recording.add({"network": label, "members": options.members} | found | least | {"times_as_fast_as_loop": ratio})
        print(
            f"{label}: ours {found['ours_ms']:.2f} ms a step ({found['plan']}), floor {least['floor_ms']:.2f}, "
            f"compiled in {found['compile_s']:.1f} s",
            flush=True,
        )
        for peer, ms in found["peers_ms"].items():
            print(f"    {peer:36s} {ms:8.2f} ms, ours is {ms / found['ours_ms']:.2f} times as fast", flush=True)
        for peer, reason in found["missing"].items():
            print(f"    {peer:36s} {reason}", flush=True)


if __name__ == "__main__":
    main()

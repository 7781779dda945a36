"""What a training step costs under every method that is a loss, relative to the standard ensemble.

    python benchmarks/method_cost.py [--model mlp|mlp_large|lenet|…] [--device cpu|gpu] [--out results/method-cost.json]

All members of all methods see 32 labelled rows a step, those with unlabelled data 32 more; the standard ensemble is
timed with 32 and with 64 rows, so that every method has a reference with as many images. The methods take turns and
the ratio of medians is reported, since absolute times on a shared machine mean little. Compilation is left out.

On a CPU the processor's time on one core is counted (`--clock wall`: the wall clock, all cores). With other work on the
machine, the quartiles of nu's ratio lay at 0.98 and 1.43 by the wall clock, at 1.01 and 1.26 by the processor's.

A second table is about Agree to Disagree, whose members train one after another: whole trainings with 2, 4 and 8
members, predictions of the earlier members included, and the device memory of a step. Results of other networks and
devices in the same file stay.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import nu_ensembles as nu
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.memory import n_bytes
from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.program import TrainingData
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import train
from nu_ensembles.methods import AgreeToDisagree, Method, Nu, Pac2, Pac2B, Standard, TrainingRows
from nu_ensembles.methods.packed_ensemble import packed
from nu_ensembles.problem import random_key
from nu_ensembles.training.run_folder import environment

Clock = Callable[[], float]
BATCH, N_LABELLED, N_UNLABELLED, N_CLASSES = 32, 1000, 5000, 10
METHODS: dict[str, tuple[Method, int]] = {  # and the labelled rows a step
    "standard": (Standard(), BATCH),
    "standard, twice the batch": (Standard(), 2 * BATCH),
    "nu": (Nu(0.01), BATCH),
    "confidence_penalty": (nu.methods.ConfidencePenalty(), BATCH),
    "label_smoothing": (nu.methods.LabelSmoothing(), BATCH),
    "mixup": (nu.methods.Mixup(), BATCH),
    "pac2, h1": (Pac2(), BATCH),
    "pac2, tight": (Pac2("tight"), BATCH),
    "pac2, as_published": (Pac2("as_published"), BATCH),
    "pac2b": (Pac2B(), BATCH),
    "pac2b, argmax": (Pac2B("argmax"), BATCH),
    "pac2b, expected": (Pac2B("expected"), BATCH),
    "dice": (nu.methods.Dice(), BATCH),
    "repulsive, function": (nu.methods.RepulsiveEnsemble(), BATCH),
    "repulsive, weight": (nu.methods.RepulsiveEnsemble("weight"), BATCH),
    "repulsive, weight, svgd": (nu.methods.RepulsiveEnsemble("weight", "svgd"), BATCH),
    "feature_flow": (nu.methods.FeatureFlow(), BATCH),
    "packed, alpha 2": (Standard(), BATCH),
    "agree_to_disagree, v1": (AgreeToDisagree(), BATCH),
    "agree_to_disagree, v2": (AgreeToDisagree(variant="v2"), BATCH),
}
# Methods whose members are other networks than the user's: (the user's, members) -> theirs.
NETWORKS: dict[str, Callable[[nu.Model, int], nu.Model]] = {"packed, alpha 2": lambda model, k: packed(model, k, 2.0)}
# What the methods promise, against the standard ensemble with as many images a step.
TARGETS = {"nu": 1.1, "pac2, h1": 2.0, "pac2, tight": 2.0, "pac2b": 2.0}


@dataclasses.dataclass(frozen=True)
class Setup:
    """A method on made-up data, ready to train with any number of members."""

    model: nu.Model
    row_shape: tuple[int, ...]
    method: Method
    batch_size: int

    def parts(self, n_members: int) -> Assembly:
        rng = np.random.default_rng(0)
        x = rng.integers(0, 256, (N_LABELLED, *self.row_shape), np.uint8)
        u = rng.integers(0, 256, (N_UNLABELLED, *self.row_shape), np.uint8) if self.method.uses_unlabeled else None
        y = rng.integers(0, N_CLASSES, N_LABELLED).astype(np.int32)
        rows = TrainingRows(x, y, np.ones(len(x), np.float32), u)
        members = MemberSet(random_key(0), range(n_members), self.method)
        return assemble(self.model, Settings(self.batch_size, BATCH), rows, N_CLASSES, [members])


class Timed:
    """Milliseconds a step of all members, measured in turns."""

    def __init__(self, setup: Setup, n_members: int, clock: Clock, plan: str = "auto") -> None:
        self.clock = clock
        program, lanes, data = setup.parts(n_members)
        self.plan = choose_plan(plan, setup.method, program, data, n_members)
        self.n_turns = -(-n_members // self.plan.lanes_at_once)
        self.images = setup.batch_size + (BATCH if setup.method.uses_unlabeled else 0)
        if setup.method.shape == "sequential":
            data = with_earlier_members(data, n_members)
        self.run = Run(program, lanes.select(np.arange(self.plan.lanes_at_once)), data, on_host=self.plan.on_host)
        self.times: list[float] = []
        self.advance(1)
        self.times.clear()

    def advance(self, n_steps: int) -> None:
        start = self.clock()
        self.run.advance(self.run.step + n_steps)
        jax.block_until_ready(self.run.state)
        self.times.append((self.clock() - start) / n_steps * 1e3 * self.n_turns)

    @property
    def ms(self) -> float:
        return statistics.median(self.times)


def quartiles(times: list[float], references: list[float]) -> list[float]:
    ratios = [one / other for one, other in zip(times, references, strict=True)]
    return statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3


def with_earlier_members(data: TrainingData, n_members: int) -> TrainingData:
    """As the last of so many members sees it."""
    assert data.x_unlabeled is not None
    shape = (n_members, len(data.x_unlabeled), N_CLASSES)
    return data._replace(
        previous=jax.nn.softmax(jax.random.normal(random_key(0), shape)), n_previous=jax.numpy.int32(n_members - 1)
    )


def cost_of_steps(
    model: nu.Model, row_shape: tuple[int, ...], clock: Clock, options: argparse.Namespace
) -> list[dict[str, Any]]:
    timed = {
        name: Timed(Setup(network_of(name, model, options.members), row_shape, *entry), options.members, clock)
        for name, entry in METHODS.items()
        if options.only is None or options.only in name or entry[0].name == "standard"
    }
    sequential = [each.plan.name == "sequential" for each in timed.values()]
    if any(sequential) and not all(sequential):
        for name in ("standard", "standard, twice the batch"):
            setup = Setup(model, row_shape, *METHODS[name])
            timed[f"{name}, member after member"] = Timed(setup, options.members, clock, "sequential")
    for _ in range(options.rounds):
        for each in timed.values():
            each.advance(options.steps)
    rows = []
    for name, each in timed.items():
        alike = "standard" if each.images == BATCH else "standard, twice the batch"
        in_turns = f"{alike}, member after member"
        reference = timed[in_turns if each.plan.name == "sequential" and in_turns in timed else alike]
        row = {
            "method": name,
            "plan": each.plan.name,
            "images": each.images,
            "ms": each.ms,
            "to_standard": each.ms / timed["standard"].ms,
            "to_equal_images": each.ms / timed[alike].ms,
            "to_equal_images_and_plan": each.ms / reference.ms,
            # Quartiles of the ratios within a turn: how much the machine's other work disturbs the figures above.
            "to_equal_images_quartiles": quartiles(each.times, timed[alike].times),
            "target": TARGETS.get(name),
        }
        rows.append(row)
        verdict = ""
        if row["target"] is not None:
            verdict = f"  target {row['target']}: {'met' if row['to_equal_images'] <= row['target'] else 'MISSED'}"
        low, _, high = row["to_equal_images_quartiles"]
        print(
            f"{name:44s} {each.plan.name:10s} {each.images:3d} images  {each.ms:8.3f} ms  × {row['to_standard']:5.2f} "
            f"standard  × {row['to_equal_images']:5.2f} ({low:.2f} … {high:.2f}) with as many images  "
            f"× {row['to_equal_images_and_plan']:5.2f} under the same plan{verdict}",
            flush=True,
        )
    return rows


def network_of(name: str, model: nu.Model, n_members: int) -> nu.Model:
    """What a member is under a method."""
    return NETWORKS[name](model, n_members) if name in NETWORKS else model


def agree_to_disagree(
    model: nu.Model, row_shape: tuple[int, ...], clock: Clock, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Time and memory over the number of members."""
    setup = Setup(model, row_shape, AgreeToDisagree(), BATCH)
    rows = []
    for n_members in (2, 4, 8):
        assembly = setup.parts(n_members)
        n_steps, seconds = 4 * options.steps, []
        for _ in range(3):
            start = clock()
            train(assembly, n_steps)
            seconds.append(clock() - start)
        held = memory_of_a_step(setup, n_members)
        row = {"members": n_members, "steps": n_steps, "seconds": min(seconds), **held}
        row["seconds_a_member"] = row["seconds"] / n_members
        rows.append(row)
        print(
            f"agree_to_disagree, {n_members} members, {n_steps} steps each: {row['seconds']:.2f} s, "
            f"{row['seconds_a_member']:.3f} s a member; a step holds {held['cache_bytes'] / 1e6:.2f} MB of predictions "
            f"and {held['other_bytes'] / 1e6:.2f} MB of everything else",
            flush=True,
        )
    return rows


def memory_of_a_step(setup: Setup, n_members: int) -> dict[str, int]:
    """Bytes of the compiled loop over steps: its arguments and temporaries, the kept predictions apart."""
    run = Timed(setup, n_members, time.perf_counter).run
    found: Any = run._lowered_steps(run.state_shapes())[0].compile().memory_analysis()
    cache = n_bytes(run.data.previous)
    total = found.argument_size_in_bytes + found.temp_size_in_bytes
    return {"cache_bytes": cache, "other_bytes": total - cache}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--clock", choices=("processor", "wall"), help="processor on a CPU, wall elsewhere")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--steps", type=int, default=64, help="in a turn")
    parser.add_argument("--only", help="methods whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("results/method-cost.json"))
    options = parser.parse_args()
    options.clock = options.clock or ("processor" if options.device == "cpu" else "wall")
    clock = {"processor": time.process_time, "wall": time.perf_counter}[options.clock]
    if options.clock == "processor":
        # Before the backend counts the cores: threads that wait for each other burn time that is no method's.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jax.config.update("jax_platforms", {"gpu": "cuda", "cpu": "cpu"}[options.device])
    # The small network is that of the demo, on rows as long as a digit's.
    row_shape = (64,) if options.model == "mlp" else (32, 32, 3)
    model = nu.models.build(options.model, N_CLASSES)
    found = {
        "command": f"python benchmarks/method_cost.py --model {options.model} --device {options.device} "
        f"--members {options.members} --rounds {options.rounds} --steps {options.steps} --clock {options.clock}",
        "environment": environment(),
        "rows": cost_of_steps(model, row_shape, clock, options),
        "agree_to_disagree": agree_to_disagree(model, row_shape, clock, options),
    }
    measured = json.loads(options.out.read_text()) if options.out.exists() else {}
    measured[f"{options.model}, {found['environment']['device']}"] = found
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What the parts of the package that are there for speed only give, and what they cost to compile.

    python benchmarks/what_speed_costs.py [--only masks] [--turns 7] [--for-an-h200] [--quick] [--out FILE]

Every part can be left out here and nowhere else: its plain form takes its place. With and without it, two members train
in a process each, which take turns of a few steps, 32 labelled + 32 unlabelled rows a step. Written are the processor
time and the wall time of every turn, and of the way to the first step: cores that others use change both sides of a
pair. With `--for-an-h200` the steps of ten members are compiled for one, which need not be there (see
`compiler_passes.py`). What only a GPU can tell is in the results of the other benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from compiler_passes import H200, SETTINGS
from speed_left_out import PARTS, Part, lines_of
from step_time import without_cache

# Networks, the shape of a row, and steps in a turn.
NETWORKS: dict[str, tuple[str, tuple[int, ...], int]] = {
    "MLP 784-500-300": ("mlp_large", (784,), 20),
    "MLP 64-64": ("mlp", (64,), 256),
    "LeNet": ("lenet", (32, 32, 3), 6),
    "WRN-10-1": ("wrn-10-1", (32, 32, 3), 4),
    "WRN-22-4": ("wrn-22-4", (32, 32, 3), 1),
}
N_MEMBERS = 2


def side(part: Part, left_out: bool) -> None:
    """In the fresh process: compiles one side, then takes a turn for every line that comes in."""
    import nu_ensembles as nu
    from nu_ensembles.diagnostics.rehearsal import Rehearsal

    name, row_shape, n_steps = NETWORKS[part.network]
    with ExitStack() as stack:
        if left_out:
            part.leave_out(stack)
        begun = time.process_time(), time.perf_counter()
        rehearsal = Rehearsal(nu.models.build(name, 10), row_shape, nu.methods.Nu(0.01), N_MEMBERS)
        print(json.dumps(_since(begun)), flush=True)
        for _ in sys.stdin:
            begun = time.process_time(), time.perf_counter()
            rehearsal.advance(n_steps)
            each = rehearsal.n_groups / n_steps * 1e3
            print(json.dumps([spent * each for spent in _since(begun)]), flush=True)


def _since(begun: tuple[float, float]) -> list[float]:
    return [time.process_time() - begun[0], time.perf_counter() - begun[1]]


class Side:
    """A process that trains with a part, or without it, a turn at a time."""

    def __init__(self, part: Part, left_out: bool) -> None:
        call = [sys.executable, __file__, "--measure", part.name, *(["--left-out"] if left_out else [])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = without_cache({"JAX_PLATFORMS": "cpu", **(part.variables if left_out else {})})
        self.process = subprocess.Popen(call, env=environment, text=True, **pipes)
        self.compile_s = self._answer()

    def turn(self) -> list[float]:
        """Milliseconds of a step: of processors, and by the clock."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self.process.communicate("")

    def _answer(self) -> list[float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} failed.")
        return json.loads(line)


def both_sides(part: Part, n_turns: int, without_first: bool) -> dict[str, Any]:
    """What pairs of turns took with the part and without it."""
    sides: dict[bool, Side] = {}
    for left_out in (without_first, not without_first):
        sides[left_out] = Side(part, left_out)
    turns: dict[bool, list[list[float]]] = {False: [], True: []}
    for number in range(n_turns + 1):
        for left_out in (False, True) if number % 2 else (True, False):
            spent = sides[left_out].turn()
            if number:  # the first turn warms up
                turns[left_out].append(spent)
    for each in sides.values():
        each.end()
    return {
        clock: {
            "with_ms": [turn[place] for turn in turns[False]],
            "without_ms": [turn[place] for turn in turns[True]],
            "compile_with_s": sides[False].compile_s[place],
            "compile_without_s": sides[True].compile_s[place],
        }
        for place, clock in enumerate(("processor", "wall"))
    }


def gpu_program(part: Part | None, network: str) -> dict[str, Any]:
    """In the fresh process: what an H200 would run in a step, compiled without one."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    import nu_ensembles as nu
    from nu_ensembles.diagnostics.rehearsal import random_assembly
    from nu_ensembles.engine.run import Run
    from nu_ensembles.engine.settings import Settings

    name, row_shape, _ = NETWORKS[network]
    options = {} if network.startswith("MLP") else {"dtype": "bfloat16"}
    model = nu.models.build(name, 10, **options)
    program, lanes, data = random_assembly(model, row_shape, nu.methods.Nu(0.01), 10, Settings())
    machine = topologies.get_topology_desc("1x1x1", "cuda", target_config=H200, topology="1x1x1")
    there = SingleDeviceSharding(machine.devices[0])
    jax.default_backend = lambda: "gpu"

    def on_gpu(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), tree)

    with ExitStack() as stack:
        if part is not None:
            part.leave_out(stack)
        run = Run(program, on_gpu(lanes), on_gpu(data))
        begun = time.process_time()
        (lowered,) = run._lowered_steps(on_gpu(run._state_shapes()))
        lowered.compile()
    return {
        "operations": lowered.as_text().count("stablehlo."),
        "compile_s": time.process_time() - begun,
    }


def in_a_fresh_process(*arguments: str, **variables: str) -> dict[str, Any]:
    call = [sys.executable, __file__, *arguments]
    environment = without_cache({"JAX_PLATFORMS": "cpu", **variables})
    done = subprocess.run(call, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts whose name contains this")
    parser.add_argument("--turns", type=int, default=7, help="of each side")
    parser.add_argument("--for-an-h200", action="store_true", help="compile for an H200 instead of timing steps here")
    parser.add_argument("--quick", action="store_true", help="two turns")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--compile-for-gpu", help=argparse.SUPPRESS)
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--left-out", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.measure:
        side(PARTS[options.measure], options.left_out)
        return
    if options.compile_for_gpu is not None:
        print(json.dumps(gpu_program(PARTS.get(options.compile_for_gpu), options.network)))
        return
    if options.quick:
        options.turns = 2
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from recording import Recording

    name = "what-speed-costs-for-an-h200" if options.for_an_h200 else "what-speed-costs"
    command = f"python benchmarks/what_speed_costs.py{' --for-an-h200' if options.for_an_h200 else ''}"
    recording = Recording(name, command, ("part", "network"), options.out, options.quick)
    with_all: dict[str, dict[str, Any]] = {}
    for number, part in enumerate(PARTS.values()):
        if options.only.lower() not in part.name.lower():
            continue
        row: dict[str, Any] = {"part": part.name, "lines": lines_of(part)}
        if options.for_an_h200:
            if part.network_of_gpu is None:
                continue
            where = part.network_of_gpu
            if where not in with_all:
                with_all[where] = in_a_fresh_process("--compile-for-gpu", "", "--network", where, **SETTINGS)
            without = in_a_fresh_process("--compile-for-gpu", part.name, "--network", where, **SETTINGS)
            row |= {"network": where, "with": with_all[where], "without": without}
        elif part.on_cpu:
            row |= {"network": part.network, **both_sides(part, options.turns, number % 2 == 1)}
        else:
            continue
        recording.add(row)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

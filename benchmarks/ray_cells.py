"""A study and a search on a Ray cluster of three nodes, one killed in mid-run; and what a task costs.

    python benchmarks/ray_cells.py study      64 cells of digits: here, and on three nodes of which one is killed
    python benchmarks/ray_cells.py tasks      1,000 cells that measure nothing

Starts the nodes itself, in a network namespace that has nothing but loopback (it needs the right to make one), on this
machine: three nodes are three raylets. What 100 of them would do it does not tell.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.tasks import Outcome
from nu_ensembles_studies.results.folder import StudyFolder

N_TRIVIAL, NODES = 1000, 3
# 16 seeds of two methods and two sizes: 64 cells of four members.
STUDY = ["training-size", "--datasets", "digits", "--models", "mlp", "--methods", "standard,nu", "--seeds", "16"]
STUDY += ["--n", "50,100", "--protocols", "matched", "--members", "4", "--quiet"]


def in_a_namespace() -> None:
    """Starts this command again where there is nothing but loopback."""
    if [name for _, name in socket.if_nameindex()] == ["lo"]:
        return
    shell = 'ip link set lo up && exec "$@"'
    os.execvp("unshare", ["unshare", "-n", "sh", "-c", shell, "sh", sys.executable, *sys.argv])


def measured(out: Path, *place: str) -> tuple[dict[str, Any], float]:
    """What a run of the study comes to, cell by cell, without times; and how long it took."""
    started = time.perf_counter()
    words = [sys.executable, "-m", "nu_ensembles.cli", "study", *STUDY, "--out", str(out), *place]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    return cells_of(out), seconds


def cells_of(out: Path) -> dict[str, Any]:
    found = {}
    for record in StudyFolder(out).records():
        found[record.cell.name] = {name: value for name, value in record.to_dict().items() if name != "seconds"}
    return found


def results_of(out: Path) -> Any:
    """The results file without times, commands and its own checksum."""
    whole = json.loads((out / "results.json").read_text())
    for name in ("seconds", "commands", "training_seconds", "sha256"):
        whole.pop(name, None)
    for cell in whole["cells"]:
        cell.pop("seconds", None)
    return whole


def study(found: Any) -> None:
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        here, seconds_here = measured(folder / "here")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(NODES - 1)]
        place = ["--on", "ray", "--address", cluster.address]
        started = time.perf_counter()
        words = [sys.executable, "-m", "nu_ensembles.cli", "study", *STUDY, "--out", str(folder / "ray"), *place]
        driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        cells = folder / "ray" / "cells"
        while driver.poll() is None and (not cells.is_dir() or len(list(cells.glob("*.json"))) < len(here) // 3):
            time.sleep(0.1)
        n_at_kill = len(list(cells.glob("*.json")))
        cluster.remove_node(nodes[0], allow_graceful=False)
        if driver.wait() != 0:
            raise SystemExit("the study on Ray failed")
        seconds = time.perf_counter() - started
        there = cells_of(folder / "ray")
        found.add(
            {
                "what": "study",
                "nodes": NODES,
                "cells": len(there),
                "cells_at_the_kill": n_at_kill,
                "failed": sum(record["status"] != "done" for record in there.values()),
                "same_cells_to_the_bit": there == here,
                "same_results_file": results_of(folder / "here") == results_of(folder / "ray"),
                "seconds_here": seconds_here,
                "seconds_on_ray": seconds,
            }
        )
        cluster.shutdown()


def nothing(cells: Any, how: Any) -> Any:
    for cell in cells:

        def task(report: Any, cell: StudyCell = cell) -> Any:
            yield Outcome(cell, {"epochs": {"1": {"test": {"nll": float(cell.seed)}}}})

        yield [cell], task


def nothing_measured(how: Any, cells: Any) -> Any:
    """What a worker does with cells that measure nothing."""
    from nu_ensembles_studies.measure.tasks import KINDS
    from nu_ensembles_studies.run.elsewhere import measured

    KINDS["nothing"] = nothing
    return measured(how, cells)


def tasks(found: Any) -> None:
    from nu_ensembles_studies.run import elsewhere
    from nu_ensembles_studies.run.cells_run import run_cells
    from nu_ensembles_studies.run.executors import executor_on

    cells = [StudyCell("digits", 100, "mlp", "standard", seed, (1,), kind="nothing") for seed in range(N_TRIVIAL)]
    how = StudyRunOptions(verbose=0)
    plain, elsewhere.measured = elsewhere.measured, nothing_measured
    with tempfile.TemporaryDirectory() as temporary, executor_on("ray") as executor:
        warm = StudyFolder(Path(temporary) / "warm")
        warm.start("table1", {}, "", {})
        run_cells(cells[:20], warm, how, executor)  # the workers import the package
        folder = StudyFolder(Path(temporary) / "study")
        folder.start("table1", {}, "", {})
        started = time.perf_counter()
        progress = run_cells(cells, folder, how, executor)
        seconds = time.perf_counter() - started
    elsewhere.measured = plain
    row = {"what": "tasks", "cells": progress.n_done, "seconds": seconds, "a_second": progress.n_done / seconds}
    found.add({**row, "load": os.getloadavg()[0]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("study", "tasks"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    in_a_namespace()
    # Whatever else runs on this machine may have filled its memory; that is no reason to kill these workers.
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112
    import ray

    from recording import Recording

    command = "python benchmarks/ray_cells.py study (and tasks)"
    found = Recording("ray-cells", command, ("what",), given.out, ray=ray.__version__)
    {"study": study, "tasks": tasks}[given.what](found)
    print(found.rows[-1])


if __name__ == "__main__":
    main()

"""One study command on this machine, on a Ray cluster, and on one that loses a node: the same results file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

STUDY = ["training-size", "--datasets", "digits", "--models", "mlp", "--methods", "standard,nu", "--seeds", "6"]
STUDY += ["--n", "50", "--protocols", "matched", "--members", "2", "--quiet"]


def begun(out: Path, *place: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "nu_ensembles.cli", "study", *STUDY, "--out", str(out), *place]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def results(out: Path) -> Any:
    """The results file without what times and places have in it."""
    whole = json.loads((out / "results.json").read_text())
    for name in ("seconds", "commands", "training_seconds", "sha256"):
        whole.pop(name, None)
    for cell in whole["cells"]:
        cell.pop("seconds", None)
    return whole


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_results_are_the_same_after_a_node_was_pulled_out(tmp_path: Path, only_loopback: None) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    assert begun(tmp_path / "here").wait() == 0
    expected = results(tmp_path / "here")
    assert len(expected["cells"]) == 12
    assert all(cell["status"] == "done" for cell in expected["cells"])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        place = ("--on", "ray", "--address", cluster.address)
        assert begun(tmp_path / "ray", *place).wait() == 0
        driver, cells = begun(tmp_path / "pulled", *place), tmp_path / "pulled" / "cells"
        while driver.poll() is None and len(list(cells.glob("*.json"))) < 3:
            time.sleep(0.05)
        assert driver.poll() is None, "the study ended before a node could be pulled out"
        cluster.remove_node(nodes[0], allow_graceful=False)
        assert driver.wait() == 0
    finally:
        cluster.shutdown()
    assert results(tmp_path / "ray") == expected
    assert results(tmp_path / "pulled") == expected

"""Several processes of `jax.distributed` train an ensemble together: the networks of one process, after kills too."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles import storage

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("several_processes.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, blobs: tuple[np.ndarray, ...]) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    storage.save_arrays(folder / "blobs.safetensors", dict(zip("xyu", blobs, strict=True)))
    return folder


def run(job: str, folder: Path, n_processes: int) -> list[subprocess.CompletedProcess]:
    """Runs a job of `several_processes.py` in so many processes; a process that hangs is ended after two minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    started = [
        subprocess.Popen(
            [sys.executable, PROGRAM, job, folder, str(number), str(n_processes), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for number in range(n_processes)
    ]
    ended = []
    try:
        for process in started:
            output = process.communicate(timeout=300)[0]
            ended.append(subprocess.CompletedProcess(process.args, process.returncode, output))
    finally:
        for process in started:
            process.kill()
    return ended


def saved(job: str, folder: Path, n_processes: int, process: int) -> dict[str, np.ndarray]:
    return storage.load_arrays(folder / f"{job}-{n_processes}-{process}.safetensors", None)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, np.ndarray]:
    """What a single process trains."""
    (ended,) = run("plain", folder, 1)
    assert ended.returncode == 0, ended.stdout
    return saved("plain", folder, 1, 0)


def same_networks(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("n_processes", [2, 4])
def test_every_process_has_the_whole_ensemble_to_the_last_bit(folder: Path, alone, n_processes: int) -> None:
    for ended in run("plain", folder, n_processes):
        assert ended.returncode == 0, ended.stdout
    for process in range(n_processes):
        assert same_networks(saved("plain", folder, n_processes, process), alone)


def test_convolutions_and_methods_whose_members_meet_train_too(folder: Path) -> None:
    for job in ("lenet", "joint"):
        for n_processes in (1, 2):
            for ended in run(job, folder, n_processes):
                assert ended.returncode == 0, ended.stdout
        assert same_networks(saved(job, folder, 2, 1), saved(job, folder, 1, 0))


def test_a_killed_run_goes_on_with_another_number_of_processes(folder: Path, alone) -> None:
    ended = run("killed", folder, 3)
    assert ended[1].returncode == 9
    for other in (ended[0], ended[2]):
        # JAX's own service, when it is quicker to notice, ends the process.
        assert other.returncode in (3, -signal.SIGABRT), other.stdout
        if other.returncode == 3:
            assert "InputError: Another process of this training is gone; start all of them again" in other.stdout
    shards = [folder / "run" / "checkpoints" / f"shard-{number}" for number in range(3)]
    assert all((shard / "checkpoint.json").exists() for shard in shards)
    shutil.copytree(folder / "run", folder / "kept")
    for n_processes in (2, 4, 1):
        shutil.rmtree(folder / "run")
        shutil.copytree(folder / "kept", folder / "run")
        for each in run("resumed", folder, n_processes):
            assert each.returncode == 0, each.stdout
        assert (folder / "run" / "model" / "manifest.json").exists()
        found = saved("resumed", folder, n_processes, n_processes - 1)
        assert same_networks(found, alone)
        assert found[str(len(alone))].shape[0] == 3  # scores on validation rows


def test_a_run_of_one_process_goes_on_in_two(folder: Path, alone) -> None:
    shutil.rmtree(folder / "run", ignore_errors=True)
    assert run("killed", folder, 1)[0].returncode == 9
    for each in run("resumed", folder, 2):
        assert each.returncode == 0, each.stdout
    assert same_networks(saved("resumed", folder, 2, 0), alone)


def test_a_divergence_ends_all_processes_with_a_sentence(folder: Path) -> None:
    for ended in run("diverges", folder, 2):
        assert ended.returncode == 3
        assert "NonFiniteLossError: " in ended.stdout

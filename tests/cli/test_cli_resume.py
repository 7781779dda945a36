"""A fit that is killed or interrupted goes on from its run folder, to the same bits as one that was not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles import storage
from nu_ensembles.tuning.trial import Trial

# Easy rows: the longest training is the best, so the final one has several compiled calls to be stopped between.
OPTIONS = (
    *("--target", "kind", "--betas", "0.001", "--cv", "2", "--members", "3", "--hidden", "8", "--max-iter", "200"),
    *("--learning-rate", "1e-4", "--checkpoint-seconds", "0", "--quiet"),
)

# Runs the command line in its own process and sends that process a signal right after a checkpoint was written, or
# while the search is under way: the same moment every time, without any waiting.
STOPPED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores Ctrl-C
from nu_ensembles.cli import main
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.tuning.scores import OutOfFold

owner, name = {"training": (CheckpointFolder, "save"), "search": (OutOfFold, "add")}[sys.argv[1]]
original, calls = getattr(owner, name), []

def then_stop(self, *arguments):
    original(self, *arguments)
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), int(sys.argv[2]))

setattr(owner, name, then_stop)
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two well separated classes: 104 labelled rows and 40 unlabelled ones."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    codes = np.arange(104) % 2
    np.savez(folder / "train.npz", X=rng.normal(size=(104, 3)) + 3 * codes[:, None], kind=codes)
    np.savez(folder / "unlabeled.npz", X=rng.normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None])
    return folder / "train.npz", folder / "unlabeled.npz"


def arguments(data: tuple[Path, Path], run_folder: Path, *more: str) -> list[str]:
    train, unlabeled = map(str, data)
    return ["fit", train, "--unlabeled", unlabeled, *OPTIONS, "--run-folder", str(run_folder), *more]


def stopped(where: str, number: signal.Signals, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", STOPPED, where, str(int(number)), *command]
    return subprocess.run(call, capture_output=True, text=True, env=environment, check=False)


def weights(model: Path) -> dict[str, np.ndarray]:
    return storage.load_arrays(model / "weights.safetensors", None)


@pytest.fixture(scope="module")
def unbroken(data: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run that nobody stopped."""
    from nu_ensembles.cli import main

    run_folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert main(arguments(data, run_folder)) == 0
    return run_folder / "model"


@pytest.fixture(scope="module")
def killed(data: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a fit that was killed with kill -9 in its final training; to be copied, not changed."""
    run_folder = tmp_path_factory.mktemp("killed") / "run"
    ended = stopped("training", signal.SIGKILL, arguments(data, run_folder))
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, ""), ended.stderr
    return run_folder


def test_a_fit_that_was_killed_while_training_resumes_to_the_same_bits(desk, data, unbroken, killed):
    assert (killed / "search.json").exists()
    assert (killed / "checkpoints" / "checkpoint.json").exists()
    resumed_to_the_same_bits(desk, data, unbroken, shutil.copytree(killed, desk.folder / "run"))


@pytest.mark.slow
def test_ctrl_c_ends_with_exit_code_130_and_a_checkpoint(desk, data, unbroken):
    run_folder = desk.folder / "run"
    ended = stopped("training", signal.SIGINT, arguments(data, run_folder))
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "nu-ensembles: Stopped; the run can be resumed from its checkpoint.\n"
    resumed_to_the_same_bits(desk, data, unbroken, run_folder)


@pytest.mark.slow
def test_a_fit_that_was_killed_while_searching_searches_again(desk, data, unbroken):
    run_folder = desk.folder / "run"
    assert stopped("search", signal.SIGKILL, arguments(data, run_folder)).returncode == -signal.SIGKILL
    assert not (run_folder / "search.json").exists()
    resumed_to_the_same_bits(desk, data, unbroken, run_folder)


def resumed_to_the_same_bits(desk, data, unbroken, run_folder):
    assert not (run_folder / "model").exists()
    outcome = desk.run(*arguments(data, run_folder, "--resume", "--json"))
    assert outcome.code == 0, outcome.err
    # Two compiled calls were done before the stop, of 256 steps each: there was something to go on from.
    assert json.loads(outcome.out)["n_steps"] > 512
    expected, found = weights(unbroken), weights(run_folder / "model")
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert (run_folder / "model" / "manifest.json").read_bytes() == (unbroken / "manifest.json").read_bytes()


def test_a_finished_search_is_not_done_again(desk, data, killed, monkeypatch):
    run_folder = shutil.copytree(killed, desk.folder / "run")

    def no_search(*_, **__):
        raise AssertionError("searched again")

    monkeypatch.setattr(Trial, "__init__", no_search)
    assert desk.run(*arguments(data, run_folder, "--resume")).code == 0


def test_resuming_with_other_options_or_data_is_refused(desk, data, killed):
    run_folder = shutil.copytree(killed, desk.folder / "run")
    before = desk.listing()
    other_options = desk.run(*arguments(data, run_folder, "--resume", "--seed", "7"))
    assert other_options.code == 2
    assert "was started with another random_state and seed" in other_options.err

    train = desk.folder / "train.npz"
    X, kind = (np.load(data[0])[name] for name in ("X", "kind"))
    np.savez(train, X=X + 1e-3, kind=kind)
    other_data = desk.run(*arguments((train, data[1]), run_folder, "--resume"))
    assert other_data.code == 2
    assert "belongs to other data or settings" in other_data.err
    train.unlink()
    assert {name: content for name, content in desk.listing().items() if not name.endswith("log.txt")} == {
        name: content for name, content in before.items() if not name.endswith("log.txt")
    }


def test_a_finished_run_is_not_run_again(desk, data, unbroken):
    outcome = desk.run(*arguments(data, unbroken.parent, "--resume"))
    assert outcome.code == 2
    assert f"{unbroken} exists already" in outcome.err
    elsewhere = desk.run(*arguments(data, unbroken.parent, "--resume", "--out", str(desk.out)))
    assert elsewhere.code == 2
    assert "holds a finished run" in elsewhere.err


def test_a_damaged_record_of_the_search_is_named(desk, data, killed):
    run_folder = shutil.copytree(killed, desk.folder / "run")
    record = run_folder / "search.json"
    record.write_text(record.read_text().replace('"n_steps"', '"n_stepz"'))
    outcome = desk.run(*arguments(data, run_folder, "--resume"))
    assert outcome.code == 2
    assert "search.json does not match its checksum" in outcome.err

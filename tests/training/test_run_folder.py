"""Run folders: what they hold, whom they refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from nu_ensembles import storage
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.training.run_folder import RunFolder, environment

CONFIG = {"seed": 3, "hyper_parameters": {"beta": 0.01}}


@contextlib.contextmanager
def start(folder: Path, config: dict = CONFIG, resume: bool = False) -> Iterator[RunFolder]:
    with RunFolder(folder, config, resume, checkpoint_seconds=30.0) as run:
        yield run


def begun(folder: Path) -> Path:
    """The folder of a run that was killed right after its start."""
    with start(folder):
        return folder


def test_a_run_tells_what_was_asked_where_it_ran_and_when(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    assert yaml.safe_load((folder / "config.yaml").read_text()) == CONFIG
    machine = storage.read_json(folder / "environment.json", "The environment")
    assert {"nu_ensembles", "python", "backend", "device", "versions"} <= machine.keys()
    assert machine["versions"]["jax"] == environment()["versions"]["jax"]
    assert (folder / "log.txt").read_text().splitlines()[0].endswith(" started")


def test_scores_are_kept_in_order_and_a_repeated_step_replaces_its_row(tmp_path: Path) -> None:
    expected = [{"step": 10, "nll": 0.5}, {"step": 20, "nll": 0.3}]
    with start(tmp_path / "run") as run:
        for row in ({"step": 20, "nll": 0.4}, {"step": 10, "nll": 0.5}, {"step": 20, "nll": 0.3}):
            run.add_row(row)
        assert run.rows() == expected
    assert storage.read_json(tmp_path / "run" / "metrics.json", "The scores") == expected


def test_scores_in_a_file_are_not_believed_when_the_run_goes_on(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (folder / "metrics.json").write_text('[{"step": ')
    with start(folder, resume=True) as run:
        assert run.rows() == []


def test_what_took_long_is_computed_once_and_its_stages_are_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    computed: list[int] = []

    def compute() -> np.ndarray:
        computed.append(1)
        return np.array([[0.25, 0.75]])

    for resume in (False, True):
        with start(tmp_path / "run", resume=resume) as run:
            for stage in ("fold-0-pool", "other"):
                (folder / stage).mkdir(parents=True, exist_ok=True)
            for _ in range(2):
                assert run.remembered("fold-0", "f" * 64, compute).tolist() == [[0.25, 0.75]]
    assert len(computed) == 1
    assert {path.name for path in folder.iterdir()} == {"fold-0.json", "fold-0.safetensors", "fold-0-pool", "other"}
    with start(tmp_path / "run", resume=True) as run:
        with pytest.raises(InputError, match=r"fold-0\.json belongs to other data or settings; use the same ones"):
            run.remembered("fold-0", "0" * 64, compute)
        (folder / "fold-0.safetensors").write_bytes(b"")
        with pytest.raises(DamagedFileError, match=r"fold-0\.safetensors does not match its checksum"):
            run.remembered("fold-0", "f" * 64, compute)


def test_a_sealed_index_of_something_else_is_refused(tmp_path: Path) -> None:
    with start(tmp_path / "run") as run:
        run.checkpoints.folder.mkdir()
        for entry in ({}, {"fingerprint": 3}, {"fingerprint": "f" * 64, "sha256": None}, [1]):
            storage.write_sealed_json(run.checkpoints.folder / "fold-0.json", entry)
            with pytest.raises(DamagedFileError, match="The index of a result"):
                run.remembered("fold-0", "f" * 64, lambda: np.zeros(1))


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(InputError, match="exists; resume the run in it, or choose another folder"):
        begun(folder)


def test_a_run_is_one_processs_at_a_time(tmp_path: Path) -> None:
    taken = pytest.raises(InputError, match=r"Another process is writing to .*run: wait until it ends")
    with start(tmp_path / "run") as run:
        with taken, start(tmp_path / "run", resume=True):
            pass
        assert (run.folder / "log.txt").read_text().count("\n") == 1
    with start(tmp_path / "run", resume=True):
        pass


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    assert begun(tmp_path) == tmp_path


def test_a_run_is_resumed_with_the_settings_it_was_started_with(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with start(folder, resume=True):
        assert (folder / "log.txt").read_text().splitlines()[-1].endswith(" resumed")
    other = pytest.raises(InputError, match="was started with another seed; use the same to resume it, or start again")
    with other, start(folder, {**CONFIG, "seed": 4}, resume=True):
        pass


def test_resuming_where_nothing_was_started_starts(tmp_path: Path) -> None:
    with start(tmp_path / "run", resume=True) as run:
        assert (run.folder / "log.txt").read_text().splitlines()[0].endswith(" started")


@pytest.mark.parametrize("written", [[], ["environment.json"], ["environment.json", "config.yaml"]])
def test_a_run_that_was_killed_at_its_start_can_go_on(tmp_path: Path, written: list[str]) -> None:
    folder = begun(tmp_path / "run")
    for path in list(folder.iterdir()):
        if path.name not in ("unfinished", *written):
            path.unlink()
    (folder / ".config.yaml.01234567.partial").write_text("seed")
    with start(folder, resume=True):
        assert (folder / "config.yaml").exists()
    assert list(folder.glob(".*")) == []


def test_a_finished_run_is_not_resumed_and_what_a_kill_left_of_its_end_goes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "model").mkdir(parents=True)
    (folder / "checkpoints" / "era-0").mkdir(parents=True)
    (folder / "checkpoints" / "checkpoint-000001.safetensors").write_text("")
    finished = pytest.raises(InputError, match="holds a finished run; choose another folder")
    with finished, start(folder, resume=True):
        pass
    assert list((folder / "checkpoints").iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("something else")
    with pytest.raises(InputError, match="run cannot be made"):
        begun(tmp_path / "run")


@pytest.mark.parametrize("seconds", [-1, float("nan"), "often", None])
def test_an_interval_that_is_none_is_refused_before_anything_is_written(tmp_path: Path, seconds: Any) -> None:
    with pytest.raises(InputError, match="checkpoint_seconds must be a number of at least 0"):
        RunFolder(tmp_path / "run", CONFIG, False, seconds)
    assert list(tmp_path.iterdir()) == []

"""Run folders: what they hold, whom they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from nu_ensembles import storage
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.training.run_folder import RunFolder, environment

CONFIG = {"seed": 3, "hyper_parameters": {"beta": 0.01}}


def start(folder: Path, config: dict = CONFIG, resume: bool = False) -> RunFolder:
    return RunFolder(folder, config, resume, checkpoint_seconds=30.0)


def test_a_run_tells_what_was_asked_where_it_ran_and_when(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    assert yaml.safe_load((run.folder / "config.yaml").read_text()) == CONFIG
    machine = storage.read_json(run.folder / "environment.json", "The environment")
    assert {"nu_ensembles", "python", "backend", "device", "versions"} <= machine.keys()
    assert machine["versions"]["jax"] == environment()["versions"]["jax"]
    assert (run.folder / "log.txt").read_text().splitlines()[0].endswith(" started")


def test_scores_are_kept_in_order_and_a_repeated_step_replaces_its_row(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for row in ({"step": 20, "nll": 0.4}, {"step": 10, "nll": 0.5}, {"step": 20, "nll": 0.3}):
        run.add_row(row)
    expected = [{"step": 10, "nll": 0.5}, {"step": 20, "nll": 0.3}]
    assert run.rows() == expected
    assert start(run.folder, resume=True).rows() == expected


def test_what_took_long_is_computed_once_and_its_stages_are_cleared(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    (run.checkpoints.folder / "fold-0-pool").mkdir(parents=True)
    (run.checkpoints.folder / "other").mkdir()
    computed: list[int] = []

    def compute() -> np.ndarray:
        computed.append(1)
        return np.array([[0.25, 0.75]])

    for each in (run, run, start(run.folder, resume=True)):
        assert each.remembered("fold-0", "data", compute).tolist() == [[0.25, 0.75]]
    assert len(computed) == 1
    left = {path.name for path in run.checkpoints.folder.iterdir()}
    assert left == {"fold-0.json", "fold-0.safetensors", "other"}
    with pytest.raises(InputError, match=r"fold-0\.json belongs to other data or settings; use the same ones"):
        run.remembered("fold-0", "other data", compute)
    (run.checkpoints.folder / "fold-0.safetensors").write_bytes(b"")
    with pytest.raises(DamagedFileError, match=r"fold-0\.safetensors does not match its checksum"):
        run.remembered("fold-0", "data", compute)
    run.finish()
    assert list(run.checkpoints.folder.iterdir()) == []


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    start(tmp_path / "run")
    with pytest.raises(InputError, match="exists; resume the run in it, or choose another folder"):
        start(tmp_path / "run")


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    assert start(tmp_path).rows() == []


def test_a_run_is_resumed_with_the_settings_it_was_started_with(tmp_path: Path) -> None:
    start(tmp_path / "run")
    log = start(tmp_path / "run", resume=True).folder / "log.txt"
    assert log.read_text().splitlines()[-1].endswith(" resumed")
    with pytest.raises(InputError, match="was started with another seed; use the same to resume it, or start again"):
        start(tmp_path / "run", {**CONFIG, "seed": 4}, resume=True)


def test_resuming_where_nothing_was_started_starts(tmp_path: Path) -> None:
    run = start(tmp_path / "run", resume=True)
    assert (run.folder / "log.txt").read_text().splitlines()[0].endswith(" started")


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    with pytest.raises(InputError, match="holds a finished run; choose another folder"):
        start(tmp_path / "run", resume=True)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("something else")
    with pytest.raises(InputError, match="run cannot be made"):
        start(tmp_path / "run")


def test_a_damaged_table_of_scores_is_named(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.add_row({"step": 1})
    (run.folder / "metrics.json").write_text('[{"step": ')
    with pytest.raises(DamagedFileError, match=r"metrics\.json is not valid JSON"):
        start(run.folder, resume=True)

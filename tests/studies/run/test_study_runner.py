"""A study on disk: finished cells are kept, failures are written down, makers are not mixed, time limits hold."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nu_ensembles import storage
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.tasks import KINDS, Outcome
from nu_ensembles_studies.results.folder import DONE, Record, StudyFolder
from nu_ensembles_studies.results.makers import maker
from nu_ensembles_studies.run import cells_run

CELLS = [StudyCell("digits", 100, "mlp", "standard", seed, (10,), kind="fake") for seed in range(4)]
SILENT = StudyRunOptions(verbose=0)


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    folder = StudyFolder(tmp_path / "study")
    folder.start("table1", {"seeds": 4}, "nu-ensembles study table1", {"python": "3"})
    return folder


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[StudyCell]:
    """Cells of the kind "fake" are measured at once; those that were are listed. Seed 2 cannot be."""
    done: list[StudyCell] = []

    def jobs(cells, context):
        for cell in cells:

            def job(report, cell=cell):
                done.append(cell)
                if cell.seed == 2:
                    raise ArithmeticError("too much")
                yield Outcome(cell, {"epochs": {str(epoch): {"test": {"nll": 1.0}} for epoch in cell.epochs}})

            yield [cell], job

    monkeypatch.setitem(KINDS, "fake", jobs)
    return done


def test_a_second_run_keeps_the_commands_and_the_time_of_the_first(folder):
    storage.write_json(folder.folder / "study.json", vars(folder.about()) | {"options": {}, "seconds": 12.5})
    folder.start("table1", {"seeds": 5}, "nu-ensembles study table1 --seeds 5", {"python": "3"})
    about = folder.about()
    assert about.seconds == 12.5
    assert about.commands == ("nu-ensembles study table1", "nu-ensembles study table1 --seeds 5")


@pytest.mark.parametrize("left", [[], ["cells"], [".study.json.01234567.partial"]])
def test_a_study_that_was_killed_at_its_start_can_go_on(tmp_path, left):
    for name in left:
        (tmp_path / "study" / name).mkdir(parents=True)
    with LifeFolder(tmp_path / "study", "study"):
        StudyFolder(tmp_path / "study").start("table1", {"seeds": 4}, "nu-ensembles study table1", {})
    assert StudyFolder(tmp_path / "study").about().study == "table1"
    assert not list((tmp_path / "study").glob(".*"))


def test_a_folder_with_something_else_in_it_is_not_taken(tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "holiday.jpg").write_text("")
    with pytest.raises(InputError, match="holds something else than a study; choose another --out"):
        StudyFolder(tmp_path).start("table1", {}, "", {})


@pytest.mark.parametrize(
    "change",
    [
        {"measured": {}},
        {"measured": {"epochs": {"20": {"test": {"nll": 1.0}}}}},
        {"measured": {"epochs": {"10": {"test": {"nll": "low"}}}}},
        {"measured": {"epochs": {"10": {"test": {"nll": math.inf}}}}},
        {"measured": {"epochs": {"10": 3}}},
        {"maker": {"jax": "0"}},
        {"status": "perhaps"},
        {"seconds": math.nan},
        {"cell": {}},
        {"cell": CELLS[0].to_dict() | {"epochs": [0]}},
        {"cell": CELLS[0].to_dict() | {"newer": 1}},
        {"cell": CELLS[1].to_dict()},
    ],
    ids=str,
)
def test_a_cell_with_a_valid_seal_and_impossible_content_counts_as_not_done(folder, change):
    folder.save(Record(CELLS[0], DONE, maker(), {"epochs": {"10": {"test": {"nll": 1.0}}}}))
    assert folder.load(CELLS[0]) is not None
    (path,) = (folder.folder / "cells").iterdir()
    storage.write_sealed_json(path, storage.read_sealed_json(path, "The cell") | change)
    assert folder.load(CELLS[0]) is None


def test_methods_of_one_place_take_turns():
    cells = [
        StudyCell("cifar10", n, "mlp", method, seed, (10,))
        for n in (100, 200)
        for method in ("standard", "nu")
        for seed in (0, 1)
    ]
    places = cells_run.of_one_place(cells_run.grouped(cells))
    assert [[group[0].method for group in groups] for groups in places] == [["standard", "nu"]] * 2
    order = [
        (cell.n_train, cell.seed, cell.method) for groups in places for cell in cells_run.in_turn(map(iter, groups))
    ]
    one_place = [(0, "standard"), (0, "nu"), (1, "standard"), (1, "nu")]
    assert order == [(n, *each) for n in (100, 200) for each in one_place]


def test_sources_that_end_early_are_left_out_of_the_turns():
    assert "".join(cells_run.in_turn([iter("ab"), iter(""), iter("cdef")])) == "acbdef"


def test_a_failure_is_written_down_with_its_reason_and_stops_no_other_cell(folder, trained):
    progress = cells_run.run_cells(CELLS, folder, SILENT)
    assert (progress.n_done, progress.n_failed, progress.n_left) == (3, 1, 0)
    failed = folder.load(CELLS[2])
    assert failed is not None
    assert (failed.status, failed.reason) == ("failed", "ArithmeticError: too much")


def test_what_is_done_is_skipped_and_a_failure_is_tried_again_only_if_asked_for(folder, trained):
    cells_run.run_cells(CELLS, folder, SILENT)
    trained.clear()
    cells_run.run_cells(CELLS, folder, SILENT)
    assert trained == []
    cells_run.run_cells(CELLS, folder, dataclasses.replace(SILENT, retry_failed=True))
    assert trained == [CELLS[2]]


def test_a_longer_training_keeps_the_epochs_that_were_measured(folder, trained):
    cells_run.run_cells(CELLS[:1], folder, SILENT)
    longer = dataclasses.replace(CELLS[0], epochs=(20,))
    cells_run.run_cells([longer], folder, SILENT)
    record = folder.load(longer)
    assert record is not None
    assert record.cell.epochs == (10, 20)
    assert set(record.measured["epochs"]) == {"10", "20"}


def test_a_damaged_cell_is_trained_again(folder, trained, capsys):
    cells_run.run_cells(CELLS[:1], folder, SILENT)
    (path,) = (folder.folder / "cells").iterdir()
    path.write_bytes(path.read_bytes()[:-40])
    assert folder.load(CELLS[0]) is None
    assert "is damaged" in capsys.readouterr().err
    trained.clear()
    assert cells_run.run_cells(CELLS[:1], StudyFolder(folder.folder), SILENT).n_done == 1
    assert trained == CELLS[:1]
    assert capsys.readouterr().err.count("is damaged") == 1


def test_what_the_user_can_mend_is_no_failure_and_stops_no_other_cell(folder, trained, monkeypatch):
    def refusing(cells, context):
        raise InputError("no such file")

    def late(cells, context):
        def job(report):
            raise InputError("too many rows")
            yield

        yield list(cells), job

    monkeypatch.setitem(KINDS, "refusing", refusing)
    monkeypatch.setitem(KINDS, "late", late)
    for kind, message in (("refusing", "no such file"), ("late", "too many rows")):
        wrong = dataclasses.replace(CELLS[0], kind=kind)
        with pytest.raises(InputError, match=message):
            cells_run.run_cells([wrong, *CELLS], folder, SILENT)
        assert folder.load(wrong) is None
        assert all(folder.load(cell) is not None for cell in CELLS)


def test_a_longer_training_that_fails_leaves_the_shorter_one(folder, trained):
    folder.save(Record(CELLS[2], "done", maker(), {"epochs": {"10": {"test": {"nll": 1.0}}}}))
    longer = dataclasses.replace(CELLS[2], epochs=(20,))
    assert cells_run.run_cells([longer], folder, SILENT).n_left == 1
    assert len(trained) == 1
    kept = folder.load(CELLS[2])
    assert kept is not None
    assert kept.covers(CELLS[2])


def test_seeds_with_rows_of_their_own_are_trained_one_after_another_by_all_methods():
    cells = [
        StudyCell("digits", 100, "mlp", method, seed, (10,), split="random")
        for method in ("standard", "nu")
        for seed in (0, 1)
    ]
    (groups,) = cells_run.of_one_place(cells_run.grouped(cells))
    assert [(group[0].seed, group[0].method) for group in groups] == [
        (0, "standard"),
        (0, "nu"),
        (1, "standard"),
        (1, "nu"),
    ]


def test_cells_of_another_device_are_refused_unless_a_mixture_is_asked_for(folder, trained):
    elsewhere = {**maker(), "device": "another device"}
    folder.save(Record(CELLS[0], "done", elsewhere, {"epochs": {"10": {}}}))
    with pytest.raises(InputError, match=r"another device.*choose another --out, or add --mixed"):
        folder.refuse_other_makers(maker())
    cells_run.run_cells(CELLS, folder, SILENT)
    # What was made here is kept beside it.
    assert {record.maker["device"] for record in folder.records()} == {"another device", maker()["device"]}


def test_after_the_time_limit_nothing_is_started(folder, trained):
    progress = cells_run.run_cells(CELLS, folder, dataclasses.replace(SILENT, time_limit=0.0))
    assert trained == []
    assert progress.n_left == 4
    assert "give the same command again" in str(progress)


def test_a_group_that_would_not_end_in_time_is_left_for_later(folder, trained):
    slow = Record(CELLS[0], "done", maker(), {"epochs": {"10": {}}}, seconds=500.0)
    folder.save(slow)
    progress = cells_run.run_cells(CELLS, folder, dataclasses.replace(SILENT, time_limit=100.0))
    assert trained == []
    assert (progress.n_done, progress.n_left) == (1, 3)


def test_the_folder_of_another_study_or_of_anything_else_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="holds the study 'table1'"):
        folder.start("when", {}, "", {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("notes")
    with pytest.raises(InputError, match="something else than a study"):
        StudyFolder(tmp_path / "mine").start("when", {}, "", {})


@pytest.mark.slow
def test_a_study_killed_at_any_moment_goes_on_without_losing_a_finished_cell(tmp_path):
    out = tmp_path / "study"
    options = ["--datasets", "digits", "--models", "mlp", "--seeds", "3", "--quick", "--no-page", "--out", str(out)]
    command = [sys.executable, "-m", "nu_ensembles_studies", "table1", *options]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=os.environ)
    cells = out / "cells"
    while process.poll() is None and not (cells.is_dir() and any(cells.glob("*.json"))):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.read_bytes() for path in cells.glob("*.json")}
    assert 1 <= len(kept) < 6
    subprocess.run(command, check=True, capture_output=True, env=os.environ)
    assert {path: path.read_bytes() for path in kept} == kept
    assert len(list(cells.glob("*.json"))) == 6
    assert len(json.loads((out / "results.json").read_text())["cells"]) == 6

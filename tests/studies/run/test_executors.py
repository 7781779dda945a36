"""Executors: every piece comes back once, with its result or with what went wrong; here, in processes and on Ray."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.ensemble import into_folder
from nu_ensembles.errors import InputError
from nu_ensembles.searches.heat import run_heat
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.tasks import KINDS, Outcome
from nu_ensembles_studies.results.folder import StudyFolder
from nu_ensembles_studies.results.makers import maker
from nu_ensembles_studies.run.cells_run import run_cells
from nu_ensembles_studies.run.executors import InProcesses, Locally, executor_on
from nu_ensembles_studies.run.predicting import Predicting, write_part, written_on

CELLS = [StudyCell("digits", 100, "mlp", "standard", seed, (10,), kind="fake") for seed in range(3)]
SILENT = StudyRunOptions(verbose=0)


def squared(shared: int, item: int) -> int:
    if item == 3:
        raise ArithmeticError("three")
    return shared + item * item


def deadly_once(folder: str, item: int) -> int:
    """Dies where nobody has died yet."""
    if item == 1:
        mark = Path(folder) / "died"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return item


def always_deadly(folder: str, item: int) -> int:
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def deadly_part(how: Predicting, number: int) -> None:
    """Dies once, with half a part written aside and others under way."""
    mark = how.model / "died"
    if number == 2 and not mark.exists():
        mark.touch()
        (how.parts.folder / ".part-00002.parquet.0123abcd.partial").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    write_part(how, number)


def check_a_death_loses_nothing(executor: Any, predicting: Any, folder: Path) -> None:
    def deadly(parts: Any, left: Any) -> Any:
        return executor.results(deadly_part, left, Predicting(folder / "model", parts))

    assert predicting(deadly)["n_earlier"] == 0
    assert (folder / "model" / "died").exists()
    assert predicting(None, "here")["n_parts"] == 5
    assert predicting(None)["n_earlier"] == 5  # nothing is left to do, and what died has left nothing behind
    check_same_predictions(folder)


def check_all_come_back(executor: Any) -> None:
    found = dict(executor.results(squared, range(5), 10))
    assert isinstance(found.pop(3), ArithmeticError)
    assert found == {0: 10, 1: 11, 2: 14, 4: 26}


def test_here_all_come_back_and_items_are_asked_for_one_by_one() -> None:
    check_all_come_back(Locally())
    asked = []
    found = Locally().results(squared, (asked.append(item) or item for item in range(9)), 0)
    next(found)
    assert asked == [0]


def test_a_place_that_there_is_not_and_options_that_belong_to_another_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"on": "rya"}, "Did you mean 'ray'"),
        ({"on": "here", "address": "10.0.0.1:6379"}, "belong to a Ray cluster"),
        ({"on": "processes", "gpus_per_task": 0.5}, "belong to a Ray cluster"),
    ]
    for arguments, said in wrong:
        with pytest.raises(InputError, match=said), executor_on(**arguments):
            pass


class TestStudy:
    """The driver of a study whose cells are measured elsewhere."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> StudyFolder:
        folder = StudyFolder(tmp_path / "study")
        folder.start("table1", {"seeds": 4}, "nu-ensembles study table1", {"python": "3"})
        return folder

    @pytest.fixture(autouse=True)
    def kind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def tasks(cells: Any, how: Any) -> Any:
            for cell in cells:

                def task(report: Any, cell: StudyCell = cell) -> Any:
                    if cell.seed == 2:
                        raise ArithmeticError("too much")
                    yield Outcome(cell, {"epochs": {"10": {"test": {"nll": 1.0}}}})

                yield [cell], task

        monkeypatch.setitem(KINDS, "fake", tasks)

    def test_every_cell_is_written_once_and_failures_have_their_reason(self, folder) -> None:
        progress = run_cells(CELLS, folder, SILENT, Locally())
        assert (progress.n_done, progress.n_failed, progress.n_left) == (2, 1, 0)
        record = folder.load(CELLS[2])
        assert record is not None
        assert record.reason == "ArithmeticError: too much"

    def test_what_another_machine_made_is_not_mixed_in_without_a_word(self, folder, monkeypatch) -> None:
        run_cells(CELLS[:1], folder, SILENT, Locally())
        other = {**maker(), "device": "another"}
        monkeypatch.setattr("nu_ensembles_studies.run.elsewhere.maker", lambda: other)
        with pytest.raises(InputError, match="add --mixed"):
            run_cells(CELLS[:2], folder, SILENT, Locally())
        assert folder.load(CELLS[1]) is None
        mixed = dataclasses.replace(SILENT, mixed=True)
        assert run_cells(CELLS[:2], folder, mixed, Locally()).n_done == 2

    def test_no_cell_is_begun_after_the_time_is_up(self, folder) -> None:
        late = dataclasses.replace(SILENT, time_limit=0.0)
        assert run_cells(CELLS, folder, late, Locally()).n_left == 3


ROWS_A_PART = 16


@pytest.fixture
def predicting(blobs, tmp_path, monkeypatch) -> Any:
    """A model and a folder of three files of 10 to 40 rows; predicts them with what writes parts."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(into_folder, "ROWS_A_PART", ROWS_A_PART)
    x, y, u = blobs
    ensemble = nu.fit("mlp", x, y, n_members=2, steps=2)
    ensemble.save(tmp_path / "model")
    (tmp_path / "rows").mkdir()
    u = np.concatenate([x, u])
    for number, rows in enumerate((u[:40], u[40:50], u[50:80])):
        columns = {f"x{each}": rows[:, each] for each in range(u.shape[1])}
        parquet.write_table(pyarrow.table(columns), tmp_path / "rows" / f"{number}.parquet", row_group_size=8)

    def predicted(write_parts: Any, name: str = "out") -> dict[str, Any]:
        given: dict[str, Any] = {"resume": True, "write_parts": write_parts}
        return into_folder.predict_into(ensemble, tmp_path / "rows", tmp_path / name, **given)

    return predicted


def check_same_predictions(folder: Path) -> None:
    """Those of `out` are those of `here`, file by file."""
    names = sorted(each.name for each in (folder / "here").iterdir())
    assert sorted(each.name for each in (folder / "out").iterdir()) == names
    assert len(names) == 6
    for name in names:
        assert (folder / "out" / name).read_bytes() == (folder / "here" / name).read_bytes()


class TestPredictions:
    """The parts of a folder of predictions are pieces of work."""

    def test_each_part_is_written_once_as_it_is_here(self, predicting, tmp_path) -> None:
        elsewhere = written_on(Locally(), tmp_path / "model")
        assert predicting(None, "here") == predicting(elsewhere) == {"n_rows": 80, "n_parts": 5, "n_earlier": 0}
        check_same_predictions(tmp_path)
        first = (tmp_path / "out" / "part-00001.parquet").stat().st_mtime_ns
        (tmp_path / "out" / "part-00002.parquet").unlink()
        assert predicting(elsewhere)["n_earlier"] == 4
        assert (tmp_path / "out" / "part-00001.parquet").stat().st_mtime_ns == first
        check_same_predictions(tmp_path)

    def test_a_file_that_disappears_costs_its_own_parts(self, predicting, tmp_path) -> None:
        rows = tmp_path / "rows"

        def without_a_file(parts: Any, left: Any) -> Any:
            (rows / "1.parquet").rename(rows / "1.away")
            return written_on(Locally(), tmp_path / "model")(parts, left)

        with pytest.raises(InputError, match=r"1.parquet cannot be read any more.*All other parts are predicted"):
            predicting(without_a_file)
        names = {each.name for each in (tmp_path / "out").glob("*.parquet")}
        assert names == {f"part-0000{number}.parquet" for number in (0, 1, 4)}
        (rows / "1.away").rename(rows / "1.parquet")
        assert predicting(None)["n_earlier"] == 3
        predicting(None, "here")
        check_same_predictions(tmp_path)

    def test_a_file_that_was_cut_short_meanwhile_is_told(self, predicting, tmp_path) -> None:
        from pyarrow.parquet import read_table, write_table

        def shorter(parts: Any, left: Any) -> Any:
            file = tmp_path / "rows" / "2.parquet"
            write_table(read_table(file)[:9], file, row_group_size=1)
            return written_on(Locally(), tmp_path / "model")(parts, left)

        with pytest.raises(InputError, match="other rows than when they were opened"):
            predicting(shorter)


@pytest.mark.slow
class TestProcesses:
    """Processes beside this one."""

    def test_all_come_back(self) -> None:
        check_all_come_back(InProcesses(2))

    def test_one_that_dies_costs_nothing(self, tmp_path) -> None:
        found = dict(InProcesses(2).results(deadly_once, range(6), str(tmp_path)))
        assert found == {item: item for item in range(6)}

    def test_a_prediction_loses_nothing_with_a_process_that_dies(self, predicting, tmp_path) -> None:
        check_a_death_loses_nothing(InProcesses(2), predicting, tmp_path)

    def test_a_piece_that_always_kills_is_given_up(self, tmp_path) -> None:
        found = dict(InProcesses(1, retries=1).results(always_deadly, range(3), str(tmp_path)))
        assert isinstance(found.pop(1), Exception)
        assert found == {0: 0, 2: 2}


@pytest.fixture(scope="module")
def cluster(only_loopback: None) -> Any:
    ray = pytest.importorskip("ray")
    # The workers do not have this module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with warnings.catch_warnings(), executor_on("ray") as executor:
        warnings.simplefilter("ignore")
        yield executor


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
class TestRay:
    """A cluster of this machine alone."""

    def test_all_come_back(self, cluster) -> None:
        check_all_come_back(cluster)

    def test_a_worker_that_dies_costs_nothing(self, cluster, tmp_path) -> None:
        found = dict(cluster.results(deadly_once, range(6), str(tmp_path)))
        assert found == {item: item for item in range(6)}

    def test_a_prediction_loses_nothing_with_a_worker_that_dies(self, cluster, predicting, tmp_path) -> None:
        check_a_death_loses_nothing(cluster, predicting, tmp_path)

    def test_members_as_tasks_are_the_same_bits(self, cluster, blobs, tmp_path) -> None:
        x, y, u = blobs
        given: dict[str, Any] = {"n_members": 3, "steps": 20, "validation": (x, y)}
        here = nu.fit("mlp", x, y, u, **given)
        there = nu.fit("mlp", x, y, u, **given, plan="ray", run_folder=tmp_path / "run")
        np.testing.assert_array_equal(there.predict_members(x), here.predict_members(x))
        assert there.history[-1] == here.history[-1]
        assert not list((tmp_path / "run" / "checkpoints").glob("*"))

    def test_trials_as_tasks_are_the_same_bits(self, cluster, blobs) -> None:
        pytest.importorskip("optuna")
        from nu_ensembles_studies.run.heats import HeatsOn

        x, y, u = blobs
        given: dict[str, Any] = {"n_trials": 6, "max_iter": 20, "n_stops": 3, "n_members": 1, "cv": 2, "generation": 3}
        space = {"learning_rate": {"log": [1e-3, 1e-1]}}
        here, there = nu.tune(space, x, y, u, **given), nu.tune(space, x, y, u, **given, run_heats=HeatsOn(cluster))
        assert here.to_dict() == there.to_dict()
        number, trial = 0, here.trials[0]
        alone = dict(run_heat(here.setting, {number: trial.parameters}))[number]
        np.testing.assert_array_equal(alone.scores, trial.scores)

    def test_an_address_where_nobody_answers_is_told(self, cluster) -> None:
        from nu_ensembles.training.on_ray import _refuse_silent

        for address, said in (("127.0.0.1:9", "does not answer"), ("http://x", "HOST:PORT")):
            with pytest.raises(InputError, match=said):
                _refuse_silent(address)

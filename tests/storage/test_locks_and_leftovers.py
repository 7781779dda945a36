"""Whoever writes to a place is alone there, and what a killed writer left is told from what is being written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.storage import claimed, new_folder, refuse_existing, sweep, write_bytes

# Begins to write, and waits to be killed.
WRITER = """
import sys
from pathlib import Path
from nu_ensembles.storage import claimed, new_folder
path = Path(sys.argv[1])
with claimed(path), new_folder(path) as inside:
    (inside / "half").write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path: Path):
    """A process that is writing the folder `model` in `tmp_path`."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "model")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_place_is_one_writers_until_it_dies_and_is_taken_over_then(writer, tmp_path: Path) -> None:
    taken = pytest.raises(InputError, match=r"Another process is writing to .*model: wait until it ends, or choose")
    with taken, claimed(tmp_path / "model"):
        pass
    with claimed(tmp_path / "other"):  # another place beside it is free
        pass
    writer.kill()
    writer.wait()
    assert (tmp_path / ".model.lock").exists()
    with claimed(tmp_path / "model"):
        assert (tmp_path / ".model.lock").exists()
    assert not (tmp_path / ".model.lock").exists()


def test_the_same_process_cannot_claim_a_place_twice(tmp_path: Path) -> None:
    with claimed(tmp_path / "model"):
        with pytest.raises(InputError, match="Another process is writing"), claimed(tmp_path / "model"):
            pass
        assert os.listdir(tmp_path) == [".model.lock"]
    assert os.listdir(tmp_path) == []


def test_a_claim_where_nothing_can_be_written_leaves_it_to_the_writer_to_say_so(tmp_path: Path) -> None:
    with claimed(tmp_path / "absent" / "model"):
        assert os.listdir(tmp_path) == []


def test_what_is_being_written_stays_and_what_a_killed_writer_left_goes(writer, tmp_path: Path) -> None:
    (partial,) = tmp_path.glob(".model.*.partial")
    sweep(tmp_path)
    assert (partial / "half").exists()
    writer.kill()
    writer.wait()
    sweep(tmp_path, "something else")
    assert partial.exists()
    with new_folder(tmp_path / "model"):
        assert not partial.exists()
    assert sorted(os.listdir(tmp_path)) == [".model.lock", "model"]


def test_only_what_has_the_name_of_a_half_written_file_is_swept(tmp_path: Path) -> None:
    kept = (".model.partial", ".model.12345678.part", "model.12345678.partial", ".a.1234567g.partial")
    for name in (*kept, ".model.12345678.partial"):
        (tmp_path / name).write_text("")
    (tmp_path / ".linked.12345678.partial").symlink_to(tmp_path / "elsewhere")
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, ".linked.12345678.partial"])


def test_a_file_that_was_written_leaves_nothing_beside_it_for_the_next(tmp_path: Path) -> None:
    write_bytes(tmp_path / "log", b"one")
    sweep(tmp_path)
    assert os.listdir(tmp_path) == ["log"]


def test_who_finds_a_place_taken_removes_what_a_killed_writer_left_beside_it(tmp_path: Path) -> None:
    for name in ("p.csv", ".p.csv.lock", ".p.csv.01234567.partial", ".other.csv.lock"):
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="exists already"):
        refuse_existing(tmp_path / "p.csv")
    assert sorted(os.listdir(tmp_path)) == [".other.csv.lock", "p.csv"]


def test_a_claim_removes_what_a_killed_writer_left_half_written_there(tmp_path: Path) -> None:
    for name in (".p.csv.01234567.partial", ".other.csv.01234567.partial"):
        (tmp_path / name).write_text("")
    with claimed(tmp_path / "p.csv"):
        assert sorted(os.listdir(tmp_path)) == [".other.csv.01234567.partial", ".p.csv.lock"]

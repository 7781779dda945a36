"""Files appear whole or not at all, and any later change to a sealed one is found."""

import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage import (
    alone_in,
    new_folder,
    read_json,
    read_sealed_json,
    read_stamped_json,
    read_yaml,
    refuse_existing,
    write_bytes,
    write_json,
    write_sealed_json,
    write_stamped_json,
    write_yaml,
)


def test_written_bytes_replace_the_old_ones_and_leave_nothing_else(tmp_path):
    write_bytes(tmp_path / "log", b"old")
    write_bytes(str(tmp_path / "log"), b"new")
    assert (tmp_path / "log").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["log"]


def test_a_write_that_fails_keeps_the_old_file_and_cleans_up(tmp_path, monkeypatch):
    write_bytes(tmp_path / "log", b"old")

    def full_disk(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InputError, match=r"log cannot be written \(No space left on device\): choose a place"):
        write_bytes(tmp_path / "log", b"new")
    assert (tmp_path / "log").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["log"]


def test_a_process_that_dies_in_mid_write_leaves_the_old_file(tmp_path):
    write_bytes(tmp_path / "log", b"old")
    program = (
        "import os, sys; from nu_ensembles.storage import write_bytes; "
        "os.fsync = lambda handle: os._exit(9); write_bytes(sys.argv[1], b'new')"
    )
    died = subprocess.run([sys.executable, "-c", program, tmp_path / "log"], check=False)
    assert died.returncode == 9
    assert (tmp_path / "log").read_bytes() == b"old"


@pytest.mark.parametrize("place", ["absent/log", "a file/log"])
def test_a_place_that_cannot_hold_files_is_named(tmp_path, place):
    (tmp_path / "a file").write_text("")
    with pytest.raises(InputError, match=r"log cannot be written"):
        write_bytes(tmp_path / place, b"")


@pytest.mark.skipif(os.name == "nt", reason="permission bits are POSIX")
def test_files_and_folders_get_the_permissions_of_ordinary_ones(tmp_path):
    (tmp_path / "ordinary").write_text("")
    (tmp_path / "ordinary folder").mkdir()
    write_bytes(tmp_path / "ours", b"")
    with new_folder(tmp_path / "our folder"):
        pass

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert mode("ours") == mode("ordinary")
    assert mode("our folder") == mode("ordinary folder")


def test_json_takes_numpy_values_and_paths_and_keeps_order_and_non_finite_numbers(tmp_path):
    row = {"z": np.float32(0.5), "a": np.arange(3), "path": Path("x"), "nan": math.nan, "é": (1, True, None)}
    write_json(tmp_path / "row.json", row)
    back = read_json(tmp_path / "row.json", "The row")
    assert math.isnan(back.pop("nan"))
    assert back == {"z": 0.5, "a": [0, 1, 2], "path": "x", "é": [1, True, None]}
    assert list(back) == ["z", "a", "path", "é"]
    assert '"é"' in (tmp_path / "row.json").read_text(encoding="utf-8")


def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="A value of type set cannot be saved as JSON"):
        write_json(tmp_path / "row.json", {"a": {1}})
    assert os.listdir(tmp_path) == []


def test_yaml_reads_back_as_plain_values_in_the_same_order(tmp_path):
    write_yaml(tmp_path / "config.yaml", {"seed": np.int64(3), "beta": 1e-5, "sizes": (64, 64), "name": "ν"})
    text = (tmp_path / "config.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"seed": 3, "beta": 1e-5, "sizes": [64, 64], "name": "ν"}
    assert text.startswith("seed: 3\nbeta: 1.0e-05\n")


def test_a_missing_json_file_is_named(tmp_path):
    with pytest.raises(DamagedFileError, match=r"The manifest .*manifest\.json is missing: check the path"):
        read_json(tmp_path / "manifest.json", "The manifest")


def test_a_folder_in_the_place_of_a_json_file_is_named(tmp_path):
    with pytest.raises(DamagedFileError, match=r"The manifest .* cannot be read"):
        read_json(tmp_path, "The manifest")


@pytest.mark.parametrize("content", [b"", b'{"a": [1, 2', b"\xff\xfe\xfd", b"PK\x03\x04"])
def test_a_truncated_or_foreign_json_file_is_named(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"The manifest .*m\.json is not valid JSON \(it was cut off"):
        read_json(tmp_path / "m.json", "The manifest")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_sealed_json_reads_back_what_was_written(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("sealed") / "m.json"
    write_sealed_json(path, value)
    assert read_sealed_json(path, "The manifest") == value
    assert json.loads(path.read_bytes())["content"] == value


def test_a_flipped_bit_in_any_byte_of_a_sealed_file_is_found(tmp_path):
    path = tmp_path / "m.json"
    write_sealed_json(path, {"beta": 0.003, "classes": ["cat", "dog"]})
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in (1, 32, 128):
            flipped = bytearray(whole)
            flipped[position] ^= bit
            path.write_bytes(flipped)
            with pytest.raises(DamagedFileError, match=r"The manifest .*m\.json does not match its checksum"):
                read_sealed_json(path, "The manifest")


def test_a_sealed_file_cut_off_or_extended_anywhere_is_found(tmp_path):
    path = tmp_path / "m.json"
    write_sealed_json(path, {"beta": 0.003})
    whole = path.read_bytes()
    for damaged in [*(whole[:end] for end in range(len(whole))), whole + b"\n"]:
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match="altered or cut off; restore it from a copy or make it again"):
            read_sealed_json(path, "The manifest")


def test_a_new_folder_appears_with_all_its_files_when_the_block_ends(tmp_path):
    target = tmp_path / "runs" / "model"
    with new_folder(target) as folder:
        (folder / "members").mkdir()
        write_bytes(folder / "members" / "0", b"weights")
        assert folder.parent == target.parent
        assert not target.exists()
    assert (target / "members" / "0").read_bytes() == b"weights"
    assert os.listdir(tmp_path / "runs") == ["model"]


@pytest.mark.parametrize("stop", [ValueError, OSError, KeyboardInterrupt])
def test_a_new_folder_leaves_nothing_when_the_block_fails(tmp_path, stop):
    def fill():
        with new_folder(tmp_path / "model") as folder:
            write_bytes(folder / "weights", b"half")
            raise stop("stop")

    with pytest.raises(stop, match="stop"):
        fill()
    assert os.listdir(tmp_path) == []


def test_an_existing_folder_or_file_is_refused_untouched(tmp_path):
    (tmp_path / "model").mkdir()
    with (
        pytest.raises(InputError, match=r"The folder .*model exists already: choose another folder or remove"),
        new_folder(tmp_path / "model"),
    ):
        pass
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(InputError, match=r"The file .*out\.csv exists already: choose another file or remove"):
        refuse_existing(tmp_path / "out.csv")
    assert refuse_existing(tmp_path / "absent") is None
    assert sorted(os.listdir(tmp_path)) == ["model", "out.csv"]


def test_a_folder_that_appears_in_the_meantime_is_not_replaced(tmp_path):
    def fill():
        with new_folder(tmp_path / "model") as folder:
            write_bytes(folder / "weights", b"")
            (tmp_path / "model").mkdir()

    with pytest.raises(InputError, match="exists already"):
        fill()
    assert os.listdir(tmp_path) == ["model"]
    assert os.listdir(tmp_path / "model") == []


def test_a_stamped_file_is_plain_json_and_no_byte_of_it_changes_unseen(tmp_path):
    path = tmp_path / "results.json"
    write_stamped_json(path, {"accuracy": 0.9, "runs": [1, 2]})
    assert json.loads(path.read_text()).keys() == {"accuracy", "runs", "sha256"}
    content, stamped = read_stamped_json(path, "The results")
    assert (content["accuracy"], content["runs"], stamped) == (0.9, [1, 2], True)
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        try:
            changed, stamped = read_stamped_json(path, "The results")
        except DamagedFileError:
            continue
        # The stamp is spoilt, and what it stamped is not.
        assert not stamped
        assert (changed["accuracy"], changed["runs"]) == (0.9, [1, 2])


def test_a_file_without_a_stamp_says_so(tmp_path):
    (tmp_path / "results.json").write_text('{"accuracy": 0.9}')
    assert read_stamped_json(tmp_path / "results.json", "The results") == ({"accuracy": 0.9}, False)


def test_a_new_folder_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), new_folder(tmp_path / "file" / "model"):
        pass


def test_a_folder_is_free_again_when_the_one_in_it_leaves_or_dies(tmp_path):
    program = (
        "import sys, time\nfrom nu_ensembles.storage import alone_in\n"
        "with alone_in(sys.argv[1]):\n print(1, flush=True)\n time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        with (
            pytest.raises(InputError, match=r"Another process.*wait until it ends, or choose another folder"),
            alone_in(tmp_path),
        ):
            pass
        process.kill()
    for _ in range(2):
        with alone_in(tmp_path):
            pass


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 10_000, "nested more than 50 deep"),
        ("- " * 2_000 + "1", "nested more than 50 deep"),
        ("{a: " * 2_000, "nested more than 50 deep"),
        ("a: 1\n" * 300_000, "larger than settings ever are"),
    ],
    ids=["lists", "dashes", "maps", "large"],
)
def test_settings_deeper_or_larger_than_people_write_are_refused_at_once(tmp_path, text, sentence):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(DamagedFileError, match=sentence):
        read_yaml(tmp_path / "config.yaml", "The settings")


def test_settings_as_deep_as_people_write_them_are_read(tmp_path):
    (tmp_path / "config.yaml").write_text("a:\n  - b: [1, {c: 2}]\n" * 1)
    assert read_yaml(tmp_path / "config.yaml", "The settings") == {"a": [{"b": [1, {"c": 2}]}]}

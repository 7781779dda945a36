"""JSON that every parser takes, and tables of text."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.cli.output import number, show, strict, table
from nu_ensembles.errors import InputError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def test_what_json_lacks_becomes_null():
    value = {"a": float("nan"), "b": np.array([1.5, np.inf]), "c": (np.float32(-np.inf), np.int64(3)), 4: Path("x/y")}
    assert strict(value) == {"a": None, "b": [1.5, None], "c": [None, 3], "4": "x/y"}


@given(st.dictionaries(st.text(), plain))
def test_any_result_prints_as_one_line_of_strict_json(value):
    text = json.dumps(strict(value), allow_nan=False)
    assert "\n" not in text
    assert json.loads(text) == strict(value)


def test_show_prints_either_the_object_or_the_text(capsys):
    show({"a": 1.0}, "one", as_json=True)
    show({"a": 1.0}, "one", as_json=False)
    assert capsys.readouterr().out == '{"a": 1.0}\none\n'


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(["metric", "n", "meaning"], [["a", "10", "x"], ["longer", "2", "yy"]]) == (
        "metric  n   meaning\na       10  x\nlonger  2   yy"
    )


def test_a_figure_that_does_not_exist_is_a_dash():
    assert [number(0.12345), number(float("nan")), number(float("inf"))] == ["0.1235", "–", "inf"]


class Full(io.StringIO):
    """A standard output without room, as /dev/full is."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def fileno(self) -> int:
        return self._spare

    def __init__(self, spare: int) -> None:
        super().__init__()
        self._spare = spare


def test_a_full_standard_output_takes_nothing_from_what_is_saved(monkeypatch, capsys, tmp_path):
    with open(tmp_path / "spare", "wb") as spare:
        monkeypatch.setattr(sys, "stdout", Full(spare.fileno()))
        show({"out": "model"}, "Saved in model", as_json=False)
        with pytest.raises(InputError, match=r"Standard output cannot be written \(No space left on device\)"):
            show({"n_rows": 3}, "three rows", as_json=True)
    assert "but all is done: see model" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_process_without_standard_streams_does_its_work(closed, tmp_path):
    script = "import sys; from nu_ensembles.cli import application; application.app = print; "
    script += f"code = application.main([]); open({str(tmp_path / 'done')!r}, 'w').write(str(code))"
    ended = subprocess.run(
        ["sh", "-c", f'"$1" -c "$2" {closed}', "sh", sys.executable, script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # Where what is printed goes nowhere it is an error, which only a log of exit codes sees.
    assert (tmp_path / "done").read_text() == ("2" if ">&-" in closed else "0"), ended.stderr

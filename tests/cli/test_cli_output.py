"""JSON that every parser takes, and tables of text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.cli.output import number, show, strict, table

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

"""Arguments become what annotations say: lists, ranges, sets, columns, ragged and empty ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_options, checked, shown
from nu_ensembles.errors import InputError

Letter = Literal["a", "b"]


@checked
def given(
    n: int = 0,
    rate: float = 0.5,
    flag: bool = False,
    shape: tuple[int, ...] = (1,),
    values: Sequence[float] = (),
    names: Sequence[str] = (),
    anything: Sequence[Any] = (),
    size: tuple[int, int] | None = None,
    rows: ArrayLike | None = None,
    parts: Sequence[ArrayLike] = (),
    counts: Mapping[str, int | None] | None = None,
    letter: Letter = "a",
    one_or_many: str | Sequence[str] = "x",
) -> dict[str, Any]:
    """What arrives behind the edge."""
    return dict(locals())


class Foreign:
    """An array of others that will not be converted, as a tensor on another device."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize(
    ("name", "value", "arrives"),
    [
        ("n", np.array(3), 3),
        ("rate", np.float16(0.5), 0.5),
        ("rate", Fraction(1, 4), 0.25),
        ("flag", np.True_, True),
        ("shape", [2, np.int64(3)], (2, 3)),
        ("shape", np.array([2, 3]), (2, 3)),
        ("shape", range(2), (0, 1)),
        ("shape", deque([4]), (4,)),
        ("values", {0.5, 0.25}, (0.25, 0.5)),
        ("values", np.zeros(0), ()),
        ("names", {"b", "a"}, ("a", "b")),
        ("names", {"b": 1, "a": 2}.keys(), ("b", "a")),
        ("anything", [1, "a"], [1, "a"]),
        ("size", [3, 4], (3, 4)),
        ("size", None, None),
        ("rows", None, None),
        ("counts", {"a": np.int8(2), "b": None}, {"a": 2, "b": None}),
        ("one_or_many", ["x"], ("x",)),
    ],
)
def test_a_value_is_taken_for_what_it_says(name: str, value: Any, arrives: Any) -> None:
    found = given(**{name: value})[name]
    assert found == arrives
    assert type(found) is type(arrives)


def test_lists_of_equal_length_are_an_array_and_a_block_of_arrays_stays_one() -> None:
    assert given(rows=[[1, 2], [3, 4]])["rows"].shape == (2, 2)
    block: Any = np.zeros((2, 3, 4))
    assert given(parts=block)["parts"] is block
    assert [part.shape for part in given(parts=[[1], [2, 3]])["parts"]] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", value) for value in (1.0, "1", [1], np.array([1]), 10**100, np.timedelta64(1, "s"), None)),
        *(("rate", value) for value in ("1", 1j, 10**400, np.zeros(1), np.timedelta64(1, "s"))),
        *(("flag", value) for value in (2, "True", None)),
        *(("shape", value) for value in ({1, 2}, set(), 3, "12", b"12", np.zeros((0, 3)), {1: 2}, iter([1]), [[1]])),
        *(("values", value) for value in ({1, "a"}, [None], np.zeros((2, 2)), np.zeros(2, "datetime64[ns]"))),
        *(("names", value) for value in ("ab", [b"a"], [None])),
        *(("size", value) for value in ((1,), (1, 2, 3), "12", 7, {1, 2})),
        *(("rows", value) for value in ([[1], [2, 3]], np.ma.masked_all(2), Foreign(), [{}], [len], [10**100])),
        *(("parts", value) for value in (3, [[[1], [2, 3]]])),
        *(("counts", value) for value in ({1: 2}, {"a": 0.5}, [("a", 1)])),
        ("letter", 3),
        ("one_or_many", [1]),
    ],
    # Neither addresses nor the order of a set: tests have the same names in every process.
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_does_not_say_that_is_refused_in_one_sentence(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"^{name} must be [^\n]*, not [^\n]*\.$"):
        given(**{name: value})


def test_a_value_that_cannot_be_written_out_is_shown_all_the_same() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert shown(ring) == "[[[[[[[...]]]]]]]"
    assert shown(-(10**5000)) == "a int"
    assert len(shown("x" * 10**7)) == len(shown(list(range(10**6)))) == 80


class Options:
    """Keeps its options as they came, as an estimator does."""

    def __init__(self, n: int | None = 3, anything: Any = None) -> None: ...


def test_options_are_looked_at_and_left_as_they_are() -> None:
    check_options({"n": None, "anything": len, "unknown": 1}, Options)
    with pytest.raises(InputError, match=r"^n must be a whole number or None, not 'three'\.$"):
        check_options({"n": "three"}, Options)

"""Checks of single arguments and of the process: one sentence says what would do, or where JAX would hang."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import checks, progress
from nu_ensembles.checks import checked
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.problem import process


def test_a_process_that_was_forked_after_jax_had_started_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    nu.random_labels(0, n_points=3, n_classes=2, n_members=2)
    monkeypatch.setattr(process, "_used_in", os.getpid() + 1)  # as a child finds it
    with pytest.raises(InputError, match=r"forked from one in which JAX was running.*'spawn'"):
        nu.random_labels(0, n_points=3, n_classes=2, n_members=2)


def test_a_process_that_was_forked_before_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_used_in", None)
    process.refuse_forks()
    assert process._used_in == os.getpid()


def test_a_notebook_shows_bars_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # pyright: ignore
    assert progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # pyright: ignore
    assert not progress.in_notebook()


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int64(1)])
def test_a_flag_is_true_in_any_dress(value: Any) -> None:
    assert checks.check_flag(value, "debias") is True


@pytest.mark.parametrize("value", ["text", None, 2, 1.0, np.zeros(0), [True], float("nan")], ids=repr)
def test_what_is_neither_true_nor_false_is_no_flag(value: Any) -> None:
    with pytest.raises(InputError, match=r"^debias must be True or False, not "):
        checks.check_flag(value, "debias")


@pytest.mark.parametrize("value", ["c", None, np.zeros(3), ["a"], {}], ids=repr)
def test_what_is_none_of_the_names_is_told_them(value: Any) -> None:
    assert checks.check_name("a", "letter", ("a", "b")) == "a"
    with pytest.raises(InputError, match=r"^Unknown letter .* Known: a, b\."):
        checks.check_name(value, "letter", ("a", "b"))


def test_rows_of_different_lengths_are_no_array() -> None:
    assert checks.check_array([[1], [2]], "sets").shape == (2, 1)
    with pytest.raises(InputError, match=r"^sets cannot be taken as an array"):
        checks.check_array([[1], [2, 3]], "sets")


def test_a_sentence_is_one_line_whatever_it_quotes() -> None:
    error = InputError(f"y holds {np.zeros((2, 2))!r}.")
    assert str(error) == "y holds array([[0., 0.], [0., 0.]])."
    assert str(DamagedFileError("one\r\ntwo")) == "one two"


@checked
def example(
    n: int,
    rate: float | None = None,
    name: str = "a",
    path: str | Path = "p",
    values: Sequence[float] = (),
    x: Any = 0,
    options: Mapping[str, Any] | None = None,
) -> str:
    """Takes a bit of everything."""
    return f"{n} {rate} {name} {path} {list(values)} {x} {options}"


def test_a_signature_lets_through_what_it_says() -> None:
    assert example(3, name="b") == "3 None b p [] 0 None"
    given: list[Any] = [np.int64(3), np.float32(0.5), np.array([1.0, 2.0])]
    assert example(given[0], given[1], path=Path("q"), values=given[2], x=object) is not None
    assert inspect.signature(example).parameters["rate"].default is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 1.5}, "n must be a whole number, not 1.5."),
        ({"n": np.array([1])}, "n must be a whole number, not array([1])."),
        ({"n": 1, "rate": "fast"}, "rate must be a number or None, not 'fast'."),
        ({"n": 1, "name": b"a"}, "name must be text, not b'a'."),
        ({"n": 1, "path": 3}, "path must be a path (of names of at most 255 bytes), not 3."),
        ({"n": 1, "path": "a\0b"}, "path must be a path (of names of at most 255 bytes), not 'a\\x00b'."),
        ({"n": 1, "options": {3: 4}}, "options must be a dict with text as keys or None, not {3: 4}."),
        ({"n": 1, "values": "1, 2"}, "values must be a list (a number each), not '1, 2'."),
        ({"n": 1, "values": [1, None]}, "values must be a list (a number each), not [1, None]."),
    ],
)
def test_an_argument_of_another_type_than_the_signature_says_is_one_sentence(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        example(**arguments)


@pytest.mark.parametrize(
    ("path", "could_be"),
    [
        ("model", True),
        (Path("a", "b"), True),
        ("", True),
        ("x" * 255, True),
        ("x" * 256, False),
        ("é" * 128, False),
        ("a/" + "x" * 256, False),
        ("a/" * 2048, False),
        ("a\0b", False),
        ("\ud800", False),
        (b"model", False),
        (3, False),
    ],
    ids=lambda value: str(value)[:9].encode("ascii", "replace").decode(),
)
def test_a_path_is_what_a_file_system_takes(path: Any, could_be: bool) -> None:
    assert checks.is_path(path) is could_be


@pytest.mark.parametrize("given", [[1, 2.5], np.array([True]), np.array([1, 0.5], object), np.float16(1)], ids=repr)
def test_numbers_are_numbers_in_any_dress(given: Any) -> None:
    assert checks.check_numbers(given, "rows").dtype.kind in "biuf"


@pytest.mark.parametrize("given", [["a"], [1j], [None, {}], [[1], [2, 3]], np.zeros(2, "datetime64[D]")], ids=repr)
def test_what_is_no_number_is_refused_as_one(given: Any) -> None:
    with pytest.raises(InputError, match=r"^rows (must be an array of numbers|cannot be taken as an array)"):
        checks.check_numbers(given, "rows")


PROBABILITIES, LABELS = np.full((6, 2), 0.5), np.arange(6) % 2
LONG = "x" * 5000
OF_BOUND: dict[str, Any] = {"member_nll": [0.5], "variance": 0.1, "squared_norms": [1.0], "n_parameters": 9}
OF_BOUND |= {"n_labeled": 9, "loss": nu.theory.BoundedLoss(2.0)}
# What is refused before the object is looked at needs none.
NOTHING: Any = None
REFUSED: dict[str, Callable[[], Any]] = {
    "a folder with a long name": lambda: nu.Ensemble.load(LONG),
    "rows of a long name": lambda: nu.datasets.open_rows(LONG),
    "a table of a long name": lambda: nu.datasets.read_table(LONG),
    "a data folder of a long name": lambda: nu.datasets.load_cifar10(LONG),
    "an export to no path": lambda: nu.Ensemble.export(NOTHING, 1e308),  # pyright: ignore
    "outputs that are a number": lambda: nu.Ensemble.compile(NOTHING, 1.5),  # pyright: ignore
    "a page to no path": lambda: nu.EnsembleClassifier.report(NOTHING, [], path=True),  # pyright: ignore
    "options without names": lambda: nu.models.network_for("mlp", 3, (4,), {3: 4}),  # pyright: ignore
    "a calibrator's ragged rows": lambda: (
        nu.calibration.VectorScaling().fit(PROBABILITIES, LABELS).apply([[0.5, 0.5], [1.0]])
    ),
    **{
        f"candidates {each!r}": lambda each=each: nu.calibration.choose_calibrator(
            PROBABILITIES,
            LABELS,
            LABELS,
            candidates=each,  # pyright: ignore
        )
        for each in (7, "text", range(3), [nu.calibration.Temperature])
    },
    "corruptions that are no list": lambda: nu.corruptions.corrupt_all(np.zeros((1, 8, 8, 3), np.uint8), 1),  # pyright: ignore
    "severities that are no list": lambda: nu.corruptions.corrupt_all(
        np.zeros((1, 8, 8, 3), np.uint8),
        severities=0.5,  # pyright: ignore
    ),
    "predictions that are text": lambda: nu.datasets.write_predictions(
        "new.csv", PROBABILITIES.astype(str), ["a", "b"]
    ),
    "labels that are dicts": lambda: (
        nu.TemperedForest(2).fit(PROBABILITIES, LABELS).score(PROBABILITIES, np.array([{}] * 6))
    ),
    "a forest without weights": lambda: nu.TemperedForest(2).fit(PROBABILITIES, LABELS, float("nan")),
    "unlabelled rows of several lengths": lambda: nu.NuEnsembleClassifier().fit(
        PROBABILITIES, LABELS, X_unlabeled=[[1], [2, 3]]
    ),
    "more rows than can be": lambda: nu.theory.best_bound(n_unlabeled=2**70, **OF_BOUND),
    "more members of no ensemble": lambda: nu.fit("mlp", PROBABILITIES, LABELS, add_to=np.float16(2), steps=1),  # pyright: ignore
    **{
        f"a fit's {name} {bad!r}": lambda name=name, bad=bad: nu.fit(
            "mlp", PROBABILITIES, LABELS, steps=1, **{name: bad}
        )
        for name, bad in {
            "x_unlabeled": [[1], [2, 3]],
            "classes": 1.5,
            "sample_weight": ["a"] * 6,
            "standardize": np.zeros(3),
            "optimizer": "adam",
            "batch_size": 2**31,
        }.items()
    },
    "a network that is none": lambda: nu.fit(int, PROBABILITIES, LABELS, steps=1),  # pyright: ignore
    "a search without a name": lambda: nu.tune({}, [], [], name=float("nan")),  # pyright: ignore
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_a_public_function_cannot_use_is_refused_in_a_sentence(
    call: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        call()
    assert len(str(refused.value)) < 300
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("take", [checks.check_array, checks.refuse_foreign])
def test_whole_numbers_that_nothing_holds_are_refused_before_anyone_converts_them(take: Callable[..., Any]) -> None:
    for value in (10**5000, [1, 10**5000], np.array([1, 10**5000], object)):
        with pytest.raises(InputError, match="X holds a whole number of more than 1024 bits"):
            take(value, "X")
    take([1, 10**300], "X")


def test_a_forest_and_a_score_refuse_them_in_one_sentence() -> None:
    x, y = np.arange(12.0)[:, None], np.arange(12) % 2
    forest = nu.TemperedForest(3, random_state=0).fit(x, y)
    for call in (lambda: forest.predict([[10**5000]]), lambda: forest.score(x, [10**5000] * 12)):
        with pytest.raises(InputError, match="1024 bits"):
            call()

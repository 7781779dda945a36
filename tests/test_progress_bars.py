"""Bars show what was counted, or steps and their loss, on a terminal, and are silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from nu_ensembles.progress import counting_bar, step_bar


def count(verbose: int = 1) -> None:
    with counting_bar("corrupting", 20, done=4, verbose=verbose) as advance:
        advance(6)


def take_steps(verbose: int = 1) -> None:
    with step_bar("nu, 3 members", 20, 5, verbose) as advance:
        advance(5, 0.4321)
        advance(10, 0.1234)


@pytest.mark.parametrize("work", [count, take_steps])
@pytest.mark.parametrize(("verbose", "terminal"), [(0, True), (1, False)])
def test_nothing_is_written_unless_asked_for_and_on_a_terminal(
    work: Callable[[int], None],
    verbose: int,
    terminal: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    work(verbose)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        (count, ["corrupting", "10/20"]),
        (take_steps, ["nu, 3 members", "20/20 steps", "loss 0.1234"]),
    ],
)
def test_a_terminal_sees_what_is_under_way_on_standard_error(
    work: Callable[[], None],
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    work()
    out, err = capsys.readouterr()
    assert out == ""
    assert all(words in err for words in shown)


def test_bytes_are_counted_as_such(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with counting_bar("downloading", 20, done=4, in_bytes=True) as advance:
        advance(6)
    assert "10/20 bytes" in capsys.readouterr().err

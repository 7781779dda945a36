"""The progress bar: silent where nobody looks, on standard error where somebody does."""

from __future__ import annotations

import sys

import pytest

from nu_ensembles.engine.progress import progress_bar


def show(verbose: int) -> None:
    with progress_bar("nu, 3 members", 20, 5, verbose) as bar:
        bar.advance(5, 0.4321)
        bar.advance(10, 0.1234)


@pytest.mark.parametrize(("verbose", "terminal"), [(0, True), (1, False)])
def test_it_is_silent_unless_asked_and_on_a_terminal(
    verbose: int, terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    show(verbose)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_tells_steps_and_loss_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    show(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "nu, 3 members" in err
    assert "20/20 steps" in err
    assert "loss 0.1234" in err

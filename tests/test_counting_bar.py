"""The bar shows what was counted on a terminal and is silent elsewhere."""

from __future__ import annotations

import pytest

from nu_ensembles.progress import counting_bar


def test_nothing_is_written_where_standard_error_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with counting_bar("corrupting", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("in_bytes", "shown"), [(False, "10/20"), (True, "10/20 bytes")])
def test_a_terminal_sees_the_description_and_the_count(
    in_bytes: bool, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with counting_bar("corrupting", 20, done=4, in_bytes=in_bytes) as advance:
        advance(6)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "corrupting" in printed.err
    assert shown in printed.err


def test_silence_can_be_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with counting_bar("corrupting", 20, verbose=0) as advance:
        advance(6)
    assert capsys.readouterr() == ("", "")

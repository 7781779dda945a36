"""What a command writes belongs to it from before its work: a second one is refused before it reads anything."""

from __future__ import annotations

import pytest

from nu_ensembles.storage import claimed


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (("predict", "absent-model", "absent.csv"), "predictions.csv"),
        (("corrupt", "absent.npz"), "corrupted"),
        (("fit", "absent.csv"), "model"),
        (("demo",), "report"),
    ],
)
def test_one_process_at_a_time_works_for_an_output(desk, command, out):
    place, before = desk.folder / out, desk.listing()
    with claimed(place):
        outcome = desk.run(*command, "--out", place)
    assert outcome.code == 2
    assert outcome.err.startswith(f"nu-ensembles: error: Another process is writing to {place}: wait until it ends,")
    assert desk.listing() == before


def test_the_place_is_free_once_a_command_has_failed(desk):
    place = desk.folder / "corrupted"
    assert "absent.npz" in desk.run("corrupt", "absent.npz", "--out", place).err
    with claimed(place):
        pass

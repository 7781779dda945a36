"""`corrupt_all` gives what `corrupt` gives, set by set, whatever the number of processes."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.corruptions import corrupt, corrupt_all, streaming
from nu_ensembles.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize("n_processes", [1, 2])
def test_sets_come_type_by_type_and_severity_by_severity(n_processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_PIXELS_A_TASK", 3 * 8 * 8)  # three images a task, so that the last is smaller
    found = list(corrupt_all(IMAGES, ["fog", "contrast"], [1, 5], seed=3, n_processes=n_processes, verbose=0))
    assert [(name, severity) for name, severity, _ in found] == [
        ("fog", 1),
        ("fog", 5),
        ("contrast", 1),
        ("contrast", 5),
    ]
    for name, severity, images in found:
        np.testing.assert_array_equal(images, corrupt(IMAGES, name, severity, seed=3))


def test_all_fifteen_common_corruptions_are_the_default() -> None:
    assert len(list(corrupt_all(IMAGES[:1], verbose=0))) == 75


def test_a_stream_can_be_left_early() -> None:
    stream = corrupt_all(IMAGES, ["fog", "snow"], n_processes=2, verbose=0)
    assert next(stream).name == "fog"
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]


def test_bad_arguments_are_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="Did you mean 'snow'"):
        corrupt_all(IMAGES, ["fog", "snwo"])
    with pytest.raises(InputError, match="Severity"):
        corrupt_all(IMAGES, ["fog"], [0])
    with pytest.raises(InputError, match="n_processes"):
        corrupt_all(IMAGES, ["fog"], n_processes=0)

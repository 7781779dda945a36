"""Rows of a file: the same whether pages are touched one by one or all that lies between is read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.datasets import mapped_records
from nu_ensembles.datasets.mapped_records import MappedRecords
from nu_ensembles.errors import InputError

N_ROWS, OFFSET = 5000, 12
VALUES = np.arange(N_ROWS * 6, dtype=np.int32).reshape(N_ROWS, 2, 3)


@pytest.fixture
def records(tmp_path: Path) -> MappedRecords:
    path = tmp_path / "rows.bin"
    path.write_bytes(bytes(OFFSET) + VALUES.tobytes())
    return MappedRecords(path, np.int32, N_ROWS, OFFSET, (2, 3))


@pytest.fixture
def read_through(monkeypatch) -> list[int]:
    """How many rows were taken by reading all that lies between them."""
    read, numbers = MappedRecords._read_through, []

    def counted(self: MappedRecords, rows: np.ndarray, taken: np.ndarray) -> None:
        numbers.append(len(rows))
        read(self, rows, taken)

    monkeypatch.setattr(MappedRecords, "_read_through", counted)
    monkeypatch.setattr(mapped_records, "READ_AT_ONCE", 1 << 14)  # several reads
    return numbers


def drawn(n: int, last: int = N_ROWS) -> np.ndarray:
    return np.sort(np.random.default_rng(0).integers(0, last, n).astype(np.int32))


@pytest.mark.parametrize(
    ("rows", "by_reading"),
    [
        (drawn(2000), True),
        (np.r_[0, drawn(2000), N_ROWS - 1], True),
        (drawn(2000)[::-1], False),
        (drawn(100), False),
        (drawn(0), False),
    ],
)
def test_many_rows_in_order_are_read_through_and_all_are_right(records, read_through, rows, by_reading) -> None:
    np.testing.assert_array_equal(records.take(rows), VALUES[rows])
    assert read_through == ([len(rows)] if by_reading else [])


def test_rows_far_apart_are_looked_up(records, read_through, monkeypatch) -> None:
    monkeypatch.setattr(mapped_records, "PAGE", 24)  # as small as a row
    for rows in (drawn(2000), drawn(2000, last=3000), np.arange(0, N_ROWS, 3)):
        np.testing.assert_array_equal(records.take(rows), VALUES[rows])
    assert read_through == [2000]


def test_a_file_that_was_removed_can_still_be_read_and_one_that_was_cut_off_is_told(records, read_through) -> None:
    twin = pickle.loads(pickle.dumps(records))
    records.path.rename(records.path.with_name("moved"))
    np.testing.assert_array_equal(records.take(drawn(2000)), VALUES[drawn(2000)])
    with open(records.path.with_name("moved"), "r+b") as file:
        file.truncate(OFFSET + 24 * 3000)
    with pytest.raises(InputError, match="was cut off"):
        twin.take(drawn(2000))
    assert read_through == [2000, 2000]

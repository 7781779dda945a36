"""What a file is, whatever its name says: a table that was saved, sent or renamed under another ending."""

from __future__ import annotations

import zipfile
from pathlib import Path

from nu_ensembles.errors import InputError

# First bytes, what they are the beginning of, and what to do about it.
_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a parquet file", "give it the ending .parquet"),
    (b"\x1f\x8b", "compressed with gzip", "give it the ending .csv.gz"),
    (b"\x93NUMPY", "a single NumPy array", "save it with numpy.savez(path, X=rows, y=labels)"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "save it as csv"),
    (b"%PDF", "a PDF document", "give the data themselves"),
    (b"\x89PNG", "an image", "give the folder that holds it"),
    (b"\xff\xd8\xff", "an image", "give the folder that holds it"),
    (b"SQLite format 3", "a database", "export a table from it as csv"),
)
_ZIP = b"PK\x03\x04"
_WEB_PAGE = (b"<!doctype html", b"<html", b"<?xml")
# What a file with this ending begins with, if there is such a thing.
_OWN = {".npz": _ZIP, ".parquet": b"PAR1", ".gz": b"\x1f\x8b"}


def refuse_another_format(path: Path, ending: str) -> None:
    """Refuses a file that is plainly something else than its ending says; a damaged one is left to its reader."""
    with open(path, "rb") as file:
        first = file.read(64)
    if ending in _OWN and first.startswith(_OWN[ending]):
        return
    if ending == ".npz" and first.startswith(b"\x93NUMPY"):  # its reader says more
        return
    found = _what_it_is(path, first)
    if found is None and ending in _OWN and _is_text(first):
        found = "text", "give it the ending .csv if it is a table"
    if found is not None:
        what, advice = found
        raise InputError(f"{path} is not what its ending {ending} says but {what}: {advice}.")


def _is_text(first: bytes) -> bool:
    """Whether the bytes are a line's beginning as a table of text has it; damaged files of other kinds have others."""
    printable = all(32 <= byte < 127 or byte in b"\t\r\n" or byte >= 0xA0 for byte in first)
    return printable and any(separator in first for separator in (b",", b";", b"\t", b"|"))


def _what_it_is(path: Path, first: bytes) -> tuple[str, str] | None:
    if first.lstrip().lower().startswith(_WEB_PAGE):
        return "a web page", "download the file itself"
    if first.startswith(_ZIP) and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if names and all(name.endswith(".npy") for name in names):
            return "an npz file", "give it the ending .npz"
        if any(name.startswith("xl/") for name in names):
            return "an Excel workbook", "save it as csv"
        return "a zip archive", "unpack it first"
    return next(((what, advice) for begin, what, advice in _BEGINNINGS if first.startswith(begin)), None)

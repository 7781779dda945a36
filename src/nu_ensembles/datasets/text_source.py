"""Where the text of a csv file comes from: a file, a packed one or standard input; in UTF-8 or an older encoding."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar

from nu_ensembles.datasets.unpacking import bounded
from nu_ensembles.errors import DamagedFileError, DataWarning

STANDARD_INPUT = Path("-")
Read = TypeVar("Read")


@dataclasses.dataclass(frozen=True)
class TextSource:
    """Text that can be read more than once.

    Attributes:
      name: what to call it in messages.
      path: of the file, or None for standard input.
      content: the bytes of standard input.
    """

    name: str
    path: Path | None
    content: bytes = b""

    @classmethod
    def at(cls, path: Path) -> TextSource:
        """That of a path, where "-" is standard input."""
        if path != STANDARD_INPUT:
            return cls(str(path), path)
        content = sys.stdin.buffer.read()
        if not content:
            raise DamagedFileError("Standard input is empty: pipe a csv file into it.")
        return cls("standard input", None, content)

    def read(self, reader: Callable[[TextIO], Read]) -> Read:
        """What the reader makes of the text; in Latin-1, with a note, if it is not UTF-8.

        Raises:
          DamagedFileError: it cannot be unpacked, or holds bytes that no text has.
        """
        try:
            with self._bytes() as file:
                first = file.read(2)
            # utf-8-sig, because spreadsheets put a byte order mark before the first name.
            encoding = "utf-16" if first in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
            try:
                return self._decoded(reader, encoding)
            except UnicodeError as error:
                if encoding == "utf-16" or self._has_zeros():
                    raise DamagedFileError(f"{self.name} is not text: save it as csv in UTF-8 again.") from error
                note = f"{self.name} is not UTF-8 text and is read as Latin-1; save it as UTF-8 if letters look wrong."
                warnings.warn(note, DataWarning, stacklevel=2)
                try:
                    # Latin-1 as Windows writes it, with dashes and quotation marks where Latin-1 has nothing.
                    return self._decoded(reader, "cp1252")
                except UnicodeError:
                    return self._decoded(reader, "latin-1")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFileError(
                f"{self.name} is not a complete gzip file: save it again or restore it from a copy."
            ) from error

    def _decoded(self, reader: Callable[[TextIO], Read], encoding: str) -> Read:
        with self._bytes() as file, io.TextIOWrapper(file, encoding=encoding, newline="") as lines:
            return reader(lines)

    def _has_zeros(self) -> bool:
        with self._bytes() as file:
            return any(b"\x00" in block for block in iter(lambda: file.read(1 << 20), b""))

    @contextlib.contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        if self.path is None:
            packed = self.content.startswith(b"\x1f\x8b")
            if packed:
                with gzip.open(io.BytesIO(self.content)) as unpacked:
                    yield bounded(unpacked, len(self.content), self.name)
            else:
                yield io.BytesIO(self.content)
            return
        with open(self.path, "rb") as file:
            if self.path.suffix.lower() == ".gz":
                with gzip.open(file) as unpacked:
                    yield bounded(unpacked, os.fstat(file.fileno()).st_size, self.name)
            else:
                yield file

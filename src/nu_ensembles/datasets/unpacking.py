"""How far a packed file may unpack: a quarter of a megabyte can stand for gigabytes of zeros."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from nu_ensembles.errors import InputError

# Bytes that may be unpacked from however little, and how many times its size anything larger may unpack to.
HARMLESS, MOST_TIMES = 64 << 20, 200
# Of text, which takes a second to read and many times its room.
HARMLESS_TEXT = 4 << 20


class Bounded(io.RawIOBase):
    """An unpacked stream that ends with an error once more came out than may have gone in.

    Args:
      unpacked: the stream.
      packed: bytes that it is unpacked from.
      name: of the file, in messages.
    """

    def __init__(self, unpacked: Any, packed: int, name: str) -> None:
        self._unpacked, self._name = unpacked, name
        self._most = max(HARMLESS_TEXT, MOST_TIMES * packed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._unpacked.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        n_bytes = self._unpacked.readinto(buffer)
        if self._unpacked.tell() > self._most:
            raise InputError(
                f"{self._name} unpacks to more than {MOST_TIMES} times its size: unpack it first, if that is right."
            )
        return n_bytes


def bounded(unpacked: Any, packed: int, name: str) -> BinaryIO:
    """A buffered stream of what is unpacked, as far as that may go."""
    return io.BufferedReader(Bounded(unpacked, packed, name))  # pyright: ignore[reportReturnType]

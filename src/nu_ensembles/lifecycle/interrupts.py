"""Ctrl-C and SIGTERM: held back until the state is consistent, and then obeyed.

A compiled call donates the old state, so an exception in the middle of it would lose both.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


class Terminated(SystemExit):
    """SIGTERM came: the process ends with the exit code that shells expect, after everybody has cleaned up."""

    def __init__(self, message: str = "stopped by SIGTERM.") -> None:
        super().__init__(128 + signal.SIGTERM)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Interruption:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.number: int | None = None

    def is_set(self) -> bool:
        return self.number is not None

    def obey(self, message: str = "") -> NoReturn:
        """Raises what the signal means.

        Raises:
          KeyboardInterrupt: after Ctrl-C.
          Terminated: after SIGTERM.
        """
        if self.number == signal.SIGTERM:
            raise Terminated(message) if message else Terminated()
        raise KeyboardInterrupt(message) if message else KeyboardInterrupt


@contextmanager
def held_interrupts() -> Iterator[Interruption]:
    """Holds Ctrl-C and SIGTERM back: what is yielded tells of them instead of an exception.

    A second signal raises at once, and one that nobody answered raises at the end. A Ctrl-C that the process ignores
    (one in the background does), and a SIGTERM that is ignored or that somebody else handles, are left alone.
    """
    asked = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def hold(number: int, _: FrameType | None) -> None:
        again = asked.is_set()
        asked.number = number
        if again:
            asked.obey()

    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = [number for number, handler in earlier.items() if _would_end_us(number, handler)]
    for number in held:
        signal.signal(number, hold)
    try:
        yield asked
    finally:
        for number in held:
            signal.signal(number, earlier[number])
    if asked.is_set():
        asked.obey()


@contextmanager
def termination_raises() -> Iterator[None]:
    """SIGTERM raises `Terminated`, so that files that are half written are removed; for the command line."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    raise Terminated


def _would_end_us(number: int, handler: Any) -> bool:
    if number == signal.SIGTERM:
        return handler in (signal.SIG_DFL, _terminate)
    return handler is not signal.SIG_IGN and handler is not None

"""Runs the application until it is told to stop (Ctrl-C or SIGTERM), and then lets requests under way finish."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nu_ensembles.errors import DataWarning, InputError, MissingExtraError
from nu_ensembles.serving.application import WARM_ROWS, make_application

# So long may requests that are under way take once the server is told to stop.
SECONDS_TO_FINISH = 10


def serve(
    ensemble: Any,
    host: str = "127.0.0.1",
    port: int = 8000,
    outputs: Sequence[str] = ("probabilities",),
    ready: Callable[[str], None] = print,
) -> None:
    """Serves an ensemble over HTTP; returns when it is told to stop.

    Args:
      ensemble: `nu.Ensemble`.
      host: the address to listen on; the default can be reached from this machine only.
      port: 0 takes a free one.
      outputs: what every answer holds: "probabilities", "members", "uncertainty".
      ready: called with the address once requests are taken.
    """
    try:
        import uvicorn  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("Serving a model", "serve") from error
    compiled = ensemble.compile(outputs)
    application = make_application(compiled)
    with _listening(host, port) as listening:
        compiled.warm(WARM_ROWS)
        # Rows with gaps and unknown levels are no news to a server.
        warnings.simplefilter("ignore", DataWarning)
        server = uvicorn.Server(
            uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=SECONDS_TO_FINISH,
            )
        )
        name, number = listening.getsockname()[:2]
        ready(f"http://{f'[{name}]' if ':' in name else name}:{number}")
        with _told_to_stop():
            server.run(sockets=[listening])


@contextlib.contextmanager
def _told_to_stop() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM end the server and nothing else: uvicorn raises them again when it has finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Nothing can listen on {host} port {port} ({reason}); choose another with --port.") from None

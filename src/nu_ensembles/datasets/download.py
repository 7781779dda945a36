"""Downloads a file once: with progress, resuming where a broken one stopped, and a checksum at the end."""

from __future__ import annotations

import contextlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from nu_ensembles._version import __version__
from nu_ensembles.datasets.cifar_archives import md5_of
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.progress import counting_bar

_CHUNK = 1 << 18
_SECONDS_OF_SILENCE = 30
_ATTEMPTS = 3


def download(address: str, path: Path, md5: str | None, *, verbose: int = 1) -> None:
    """Makes the content at an address the file `path`.

    What has arrived is kept beside it, in a file that ends in `.part`, and a later call asks for the rest only.

    Args:
      address: http, https or file URL.
      path: the new file; its folder is made if need be.
      md5: the checksum that the content must have; None if there is none.
      verbose: 0 for no progress bar.
    """
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _fetch(address, partial, verbose)
                break
            except (urllib.error.HTTPError, urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
                # An answer is an answer; a connection that broke may hold next time.
                if attempt == _ATTEMPTS or isinstance(error, urllib.error.HTTPError):
                    raise _failed(address, path, error) from error
        if md5 is not None and md5_of(partial) != md5:
            partial.unlink()
            raise DamagedFileError(
                f"What came from {address} does not have the checksum {md5}: try again, or get {path.name} "
                "another way and name its folder."
            )
        os.replace(partial, path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): choose a place that is writable and has room."
        ) from error


def _fetch(address: str, partial: Path, verbose: int) -> None:
    """Appends what is missing of the content to `partial`."""
    done = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": f"nu-ensembles/{__version__}", **({"Range": f"bytes={done}-"} if done else {})}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_SECONDS_OF_SILENCE)
    except urllib.error.HTTPError as error:
        # The server has no bytes beyond those that we have: nothing is missing.
        with contextlib.closing(error):
            if done and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return
            raise
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            done = 0  # this server starts from the beginning
        length = answer.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        description = f"downloading {Path(address).name}"
        with (
            open(partial, "ab" if done else "wb") as file,
            counting_bar(description, total, done=done, verbose=verbose, in_bytes=True) as advance,
        ):
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                advance(len(chunk))
    if total is not None and partial.stat().st_size < total:
        raise http.client.IncompleteRead(b"", total - partial.stat().st_size)


def _failed(address: str, path: Path, error: Exception) -> InputError:
    reason = getattr(error, "reason", None) or error
    return InputError(
        f"{address} could not be downloaded ({reason}): run again to go on where it stopped, or get {path.name} "
        "another way and name its folder by data_dir or NU_ENSEMBLES_DATA."
    )

"""A download resumes where it stopped, ends with the right checksum or not at all; the server is on this machine."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.datasets import cifar
from nu_ensembles.datasets.download import download
from nu_ensembles.errors import DamagedFileError, InputError

CONTENT = np.random.default_rng(0).bytes(700_000)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content` at any address but /missing; `breaks` answers stop in the middle; `ranges` are understood."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.breaks, self.ranges = CONTENT, 0, True
        self.asked: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/archive.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if self.path == "/missing":
            self.send_error(404)
            return
        match = re.fullmatch(r"bytes=(\d+)-", asked or "")
        start = int(match[1]) if match and self.server.ranges else 0
        if start >= len(self.server.content):
            self.send_error(416)
            return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.breaks:
            self.server.breaks -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_nothing_else_stays(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "archive.tar.gz"
    download(server.address, path, MD5, verbose=0)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_connection_is_taken_up_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.breaks = 2
    download(server.address, tmp_path / "file", MD5, verbose=0)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=350000-", "bytes=525000-"]


def test_after_several_breaks_the_part_is_kept_for_the_next_call(server: Server, tmp_path: Path) -> None:
    server.breaks = 3
    with pytest.raises(InputError, match=r"could not be downloaded .* run again to go on"):
        download(server.address, tmp_path / "file", MD5, verbose=0)
    assert not (tmp_path / "file").exists()
    download(server.address, tmp_path / "file", MD5, verbose=0)
    assert server.asked[-1] == "bytes=612500-"
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_from_the_beginning(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    download(server.address, tmp_path / "file", MD5, verbose=0)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_is_complete_already_needs_no_more_bytes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    download(server.address, tmp_path / "file", MD5, verbose=0)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_other_content_than_promised_is_thrown_away(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[::-1]
    with pytest.raises(DamagedFileError, match=f"does not have the checksum {MD5}"):
        download(server.address, tmp_path / "file", MD5, verbose=0)
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_there_is_said_so_at_once(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing could not be downloaded \(Not Found\).*NU_ENSEMBLES_DATA"):
        download(server.address.replace("archive.tar.gz", "missing"), tmp_path / "file", MD5, verbose=0)
    assert len(server.asked) == 1


def test_a_set_that_is_nowhere_is_downloaded_once_into_the_cache(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("cifar_fixture", Path(__file__).with_name("cifar_fixture.py"))
    assert spec is not None
    assert spec.loader is not None
    small = sys.modules["cifar_fixture"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(small)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NU_ENSEMBLES_DATA", raising=False)
    server.content = small.packed_bytes(small.SMALL10, "python")
    archive = dataclasses.replace(small.SMALL10.source.python, address=server.address, md5=small.md5(server.content))
    source = dataclasses.replace(small.SMALL10.source, python=archive)
    for _ in range(2):
        found = cifar.load(source, None, "fine", may_download=True, verbose=0)
        np.testing.assert_array_equal(found.test_images, small.SMALL10.part("test")[0])
    assert len(server.asked) == 1

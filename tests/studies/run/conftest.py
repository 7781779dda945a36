"""What tests on a Ray cluster need."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture(scope="session")
def only_loopback() -> None:
    """Skips where there are other networks: Ray would take another address of this machine for its own."""
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        pytest.skip("Ray is tested in a network namespace of its own: unshare -rn sh -c 'ip link set lo up; pytest …'")

"""Requests a second that `nu-ensembles serve` answers, and how long they take: single rows from concurrent clients.

    python benchmarks/serving.py [--clients 32] [--requests 20000] [--quick] [--out FILE]

Ten MLPs of the digits, served by a process of their own on 127.0.0.1. The clients share one thread of this process,
each with a connection that it keeps, and every answer is compared with what the ensemble says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nu_ensembles as nu
from nu_ensembles.datasets.digits import load_digits
from recording import Recording

ROWS = 256


def trained(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Saves an ensemble, and gives rows and what it says of them."""
    pixels, labels = load_digits()
    ensemble = nu.fit("mlp", pixels[:300], labels[:300], n_members=10, steps=100, standardize=True)
    ensemble.save(folder)
    rows = pixels[-ROWS:]
    return rows, ensemble.predict_proba(rows)


async def client(
    address: tuple[str, int], bodies: list[bytes], expected: np.ndarray, turns: list[int], seconds: list[float]
) -> float:
    """Sends one request after the other; gives the largest difference of an answer."""
    reader, writer = await asyncio.open_connection(*address)
    worst = 0.0
    while turns:
        at = turns.pop()
        begun = time.perf_counter()
        writer.write(bodies[at])
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(
            next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")).split()[1]
        )
        content = await reader.readexactly(length)
        seconds.append(time.perf_counter() - begun)
        worst = max(worst, float(np.abs(np.array(json.loads(content)["probabilities"][0]) - expected[at]).max()))
    writer.close()
    return worst


def request(row: np.ndarray) -> bytes:
    body = json.dumps({"rows": [row.tolist()]}).encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def measured(address: tuple[str, int], rows: np.ndarray, expected: np.ndarray, n_clients: int, n: int) -> dict:
    bodies = [request(row) for row in rows]
    # Once around, so that nothing is compiled or allocated for the first time while it is measured.
    for n_requests in (min(2000, n), n):
        turns = [at % len(rows) for at in range(n_requests)]
        seconds: list[float] = []
        begun = time.perf_counter()
        worst = await asyncio.gather(*(client(address, bodies, expected, turns, seconds) for _ in range(n_clients)))
        took = time.perf_counter() - begun
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    return {"rate": n / took, "p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99, "worst": max(worst)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, to another file")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n_requests = options.requests // (10 if options.quick else 1)
    command = "python benchmarks/serving.py"
    recording = Recording("serving", command, ("clients", "requests"), options.out, options.quick)
    with tempfile.TemporaryDirectory() as folder:
        rows, expected = trained(Path(folder, "model"))
        serving = [sys.executable, "-m", "nu_ensembles.cli", "serve", str(Path(folder, "model")), "--port", "0"]
        with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                host, port = server.stdout.readline().split("//")[-1].strip().split(":")
                before = cpu_seconds(server.pid)
                found = asyncio.run(measured((host, int(port)), rows, expected, options.clients, n_requests))
                found["server_cpu_ms"] = 1e3 * (cpu_seconds(server.pid) - before) / (n_requests + min(2000, n_requests))
            finally:
                server.terminate()
    found["load"] = os.getloadavg()[0]
    recording.add({"clients": options.clients, "requests": n_requests} | found)
    print(
        f"{options.clients} clients, {n_requests} requests: {found['rate']:.0f} a second, median {found['p50_ms']:.1f} "
        f"ms, p99 {found['p99_ms']:.1f} ms; {found['server_cpu_ms']:.3f} ms of the server's processor time a request; "
        f"largest difference of an answer {found['worst']:.1e}; load {found['load']:.0f}."
    )


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, which others on the machine change less than the time on the clock."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    main()

"""A search by two workers on PostgreSQL, one killed in mid-run, against the same search by one worker in a file.

    python benchmarks/tune_two_workers.py

Starts a PostgreSQL server of its own on loopback (as another user, where this one is root), runs both searches through
the command line, and compares their results files byte by byte.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TRIALS, LEASE = 48, 6
SPACE = """\
learning_rate: {log: [3e-4, 1e-2]}
weight_decay: {log: [1e-6, 1e-2]}
beta: {choice: [0, 0.001, 0.01]}
width: {int: [32, 64], step: 32}
"""


@contextlib.contextmanager
def postgresql(folder: Path, programs: Path) -> Iterator[str]:
    """A server on a free port of loopback; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where, user = folder / "database", []
    where.mkdir()
    if os.getuid() == 0:  # the server refuses to run as root
        shutil.chown(where, "nobody")
        user = ["setpriv", "--reuid=nobody", "--clear-groups"]
    subprocess.run(
        [*user, programs / "initdb", "-D", where, "-U", "tuner", "--auth=trust", "-N"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={where}", "-c", "fsync=off"]
    server = subprocess.Popen(
        [*user, programs / "postgres", "-D", where, "-p", str(port), *options], stderr=subprocess.DEVNULL, cwd="/"
    )
    try:
        for _ in range(100):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"postgresql://tuner@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def command(folder: Path, name: str, *more: str) -> list[str]:
    words = [sys.executable, "-m", "nu_ensembles.cli", "tune", str(folder / "train.npz")]
    words += ["--unlabeled", str(folder / "more.npz"), "--space", str(folder / "space.yaml"), "--max-iter", "60"]
    words += ["--trials", str(TRIALS), "--together", "4", "--search-only", "--quiet", "--out", str(folder / name)]
    return [*words, *more]


def n_trials(address: str) -> int:
    """How many have ended."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text("select count(*) from trials")).scalar_one()
    except sqlalchemy.exc.DBAPIError:
        return 0
    finally:
        engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path("/usr/lib/postgresql/15/bin"), help="PostgreSQL's own")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    from sklearn.datasets import load_digits

    from recording import Recording

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        np.savez(folder / "train.npz", X=x[order[:200]].astype(np.float32), y=y[order[:200]])
        np.savez(folder / "more.npz", X=x[order[200:1000]].astype(np.float32))
        (folder / "space.yaml").write_text(SPACE)
        started = time.perf_counter()
        subprocess.run(command(folder, "alone"), check=True, stdout=subprocess.DEVNULL)
        alone = time.perf_counter() - started
        with postgresql(folder, given.programs) as address:
            shared = ["--storage", address, "--lease", str(LEASE)]
            started = time.perf_counter()
            first, second = (
                subprocess.Popen(command(folder, name, *shared), stdout=subprocess.DEVNULL) for name in ("one", "two")
            )
            while n_trials(address) < TRIALS // 4:
                time.sleep(0.1)
            first.kill()
            first.wait()
            n_at_kill = n_trials(address)
            if second.wait() != 0:
                raise SystemExit("the second worker failed")
            both = time.perf_counter() - started
            n_written = n_trials(address)
        same = (folder / "alone" / "results.json").read_bytes() == (folder / "two" / "results.json").read_bytes()
    found = Recording("tune-two-workers", "python benchmarks/tune_two_workers.py", (), given.out)
    row = {"trials": TRIALS, "ended_at_the_kill": n_at_kill, "trials_in_the_database": n_written}
    found.add({**row, "results_are_the_same_bytes": same, "seconds_alone": alone, "seconds_of_two": both})
    print(found.rows[-1])


if __name__ == "__main__":
    main()

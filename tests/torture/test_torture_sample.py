"""A small sample of the torture suite; all of it is `make torture`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_a_sample_of_damaged_files_fails_nowhere() -> None:
    options = ["--only", "files", "--minutes", "0", "--least", "36"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(PROJECT / "benchmarks" / "torture"), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""A small sample of the torture suite; all of it is `make torture`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(("campaign", "n_attempts"), [("files", 36), ("arguments", 400)])
def test_a_sample_of_a_campaign_fails_nowhere(campaign: str, n_attempts: int) -> None:
    options = ["--only", campaign, "--minutes", "0", "--least", str(n_attempts)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(PROJECT / "benchmarks" / "torture"), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""A small sample of the torture suite; all of it is `make torture`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TORTURE = PROJECT / "benchmarks" / "torture"
ALL_PUBLIC = """
import public
names, left_out = public.names(), {n for group in public.LEFT_OUT.values() for n in group.split()}
assert left_out <= set(names), left_out - set(names)
print(len(names) - len(left_out))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TORTURE), *sys.path])}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("part", "n_attempts"),
    [
        ("files-0", 30),
        ("arguments-0", 150),
        pytest.param("commands", 40, marks=pytest.mark.slow),
        pytest.param("kills-0", 20, marks=pytest.mark.slow),
        pytest.param("faults", 150, marks=pytest.mark.slow),
        pytest.param("load", 20, marks=pytest.mark.slow),
        pytest.param("signals", 4, marks=pytest.mark.slow),
    ],
)
def test_a_sample_of_a_part_fails_nowhere(part: str, n_attempts: int) -> None:
    done = run(str(TORTURE), "--only", part, "--attempts", str(n_attempts), "--seed", "11")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_function_is_called_with_malformed_arguments_or_left_out_for_a_reason() -> None:
    done = run("-c", ALL_PUBLIC)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100

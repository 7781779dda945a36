"""Members spread over devices: the networks of the plain reference, and nothing exchanged while they train."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import BARS

from nu_ensembles import storage


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, blobs: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """What a process with four simulated devices and 64-bit numbers reports."""
    folder = tmp_path_factory.mktemp("sharded")
    storage.save_arrays(folder / "blobs.safetensors", dict(zip("xyu", blobs, strict=True)))
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    settings = {"XLA_FLAGS": flags, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    script = Path(__file__).with_name("sharded_training.py")
    done = subprocess.run(
        [sys.executable, script, folder], env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_five_members_go_to_three_of_four_devices_and_one_place_is_filled_up(found: dict[str, Any]) -> None:
    assert (found["n_devices"], found["n_mesh_devices"], found["n_lanes"]) == (4, 3, 6)


def test_ten_steps_train_the_networks_of_the_plain_reference(found: dict[str, Any]) -> None:
    assert {dtype: found["against the reference"][dtype] < bar for dtype, bar in BARS.items()} == dict.fromkeys(
        BARS, True
    )


def test_the_compiled_training_holds_no_collective(found: dict[str, Any]) -> None:
    assert found["collectives"] == []


def test_a_broken_and_resumed_run_gives_the_same_bits(found: dict[str, Any]) -> None:
    assert found["resumed against unbroken"] == 0
    assert found["n_evaluations"] == 2

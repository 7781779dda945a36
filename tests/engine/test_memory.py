"""The estimate of a lane's memory, made without compiling."""

from __future__ import annotations

import jax
import numpy as np

from nu_ensembles import models
from nu_ensembles.engine.memory import SAFETY, free_bytes, lane_bytes, lanes_that_fit, n_bytes
from nu_ensembles.engine.program import Program


def test_bytes_of_a_tree() -> None:
    assert n_bytes({"a": np.zeros((2, 3), np.float32), "b": [np.zeros(4, np.uint8)]}) == 28


def test_logistic_regression_needs_its_parameters_five_times_and_its_inputs() -> None:
    program = Program(models.mlp(3, hidden=()), batch_size=8)
    needed = lane_bytes(program, (4,), with_unlabeled=False) / SAFETY
    parameters, inputs = 4 * (4 * 3 + 3), 4 * 8 * 4
    assert 5 * parameters + inputs <= needed <= 5 * parameters + 2 * inputs + parameters


def test_unlabelled_rows_and_wider_networks_need_more() -> None:
    small = Program(models.mlp(3, hidden=(8,)), batch_size=8, unlabeled_batch_size=8)
    wide = Program(models.mlp(3, hidden=(800,)), batch_size=8, unlabeled_batch_size=8)
    alone, with_unlabeled = (lane_bytes(small, (4,), each) for each in (False, True))
    assert alone < with_unlabeled < 2 * alone
    assert lane_bytes(wide, (4,), False) > 20 * alone


def test_at_least_one_lane_fits_and_on_a_cpu_half_of_the_memory_is_used() -> None:
    device = jax.devices("cpu")[0]
    program = Program(models.mlp(3, hidden=(8,)))
    assert free_bytes(device) > 1 << 28
    assert lanes_that_fit(program, (4,), False, device) == free_bytes(device) // lane_bytes(program, (4,), False)

    class FullDevice:
        platform = "gpu"

        @staticmethod
        def memory_stats() -> dict[str, int]:
            return {"bytes_limit": 100, "bytes_in_use": 99}

    assert lanes_that_fit(program, (4,), False, FullDevice()) == 1  # pyright: ignore[reportArgumentType]

"""Rehearsals time whole rounds of steps."""

from __future__ import annotations

import jax
import pytest

from nu_ensembles import models
from nu_ensembles.diagnostics.rehearsal import Rehearsal
from nu_ensembles.engine.fast.rounds import STEPS_A_ROUND
from nu_ensembles.methods import Standard


@pytest.mark.parametrize(("backend", "steps"), [("gpu", [STEPS_A_ROUND, 2 * STEPS_A_ROUND]), ("cpu", [1, 4])])
def test_where_steps_go_in_rounds_no_part_of_a_round_is_timed(
    backend: str, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rehearsal = Rehearsal(models.mlp(3, hidden=(4,)), (5,), Standard(), 2, n_classes=3, n_rows=8, n_unlabeled=8)
    assert rehearsal.run.step == steps[0]
    assert rehearsal.advance(3) > 0
    assert rehearsal.run.step == steps[1]

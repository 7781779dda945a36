"""What several runs draw alike is drawn once, and each run comes to the bits that it has alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from nu_ensembles.engine import run as engine_run
from nu_ensembles.engine.fast.shared_draws import SharedDraws, drawn_from
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Nu

N_STEPS = 300  # more than a block


def test_runs_that_share_draw_once_and_have_the_bits_of_each_alone(assembled, monkeypatch) -> None:
    one, other = assembled(Nu(0.1)), assembled(Nu(0.3), learning_rate=0.02)
    alone = [Run(each.program, each.lanes, each.data) for each in (one, other)]
    shared = SharedDraws()
    together = [Run(each.program, each.lanes, each.data, shared=shared) for each in (one, other)]
    for run in alone:
        run.advance(N_STEPS)
    drawn, block_of = [], engine_run.block_of

    def counted(*arguments):
        drawn.append(arguments[3])
        return block_of(*arguments)

    monkeypatch.setattr(engine_run, "block_of", counted)
    for run in together:
        run.advance(N_STEPS)
    assert drawn == list(range(-(-N_STEPS // alone[0].steps_a_block)))
    for mine, theirs in zip(together, alone, strict=True):
        jax.tree.map(np.testing.assert_array_equal, mine.host_state(), theirs.host_state())
    assert not np.array_equal(*(jax.tree.leaves(run.host_state())[0] for run in together))


def test_other_keys_row_counts_or_programs_are_drawn_apart(assembled) -> None:
    one = assembled(Nu(0.1))
    others = [
        assembled(Nu(0.1), seed=1),
        assembled(Nu(0.1), members=range(2)),
        assembled(Nu(0.1), batch_size=4),
        assembled(Nu(0.1), x=np.zeros((40, 5), np.float32)),
    ]
    fewer_rows = one.lanes._replace(n_rows=one.lanes.n_rows - 1)
    names = {drawn_from(each.program, each.lanes, each.data) for each in (one, *others)}
    assert len({*names, drawn_from(one.program, fewer_rows, one.data)}) == len(others) + 2
    same = assembled(Nu(0.5), weight_decay=0.1)
    assert drawn_from(same.program, same.lanes, same.data) in names


class TestKeeping:
    """What is kept, and for whom."""

    def test_who_asks_meanwhile_waits(self) -> None:
        begun, go_on, calls = threading.Event(), threading.Event(), []

        def draw() -> np.ndarray:
            begun.set()
            assert go_on.wait(10)
            calls.append(1)
            return np.zeros(3)

        shared = SharedDraws()
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(shared.of, "a", draw)
            assert begun.wait(10)
            second = threads.submit(shared.of, "a", draw)
            go_on.set()
            assert first.result() is second.result()
        assert calls == [1]

    def test_memory_is_bounded(self) -> None:
        shared = SharedDraws(most_bytes=8)
        kept = shared.of("a", lambda: np.zeros(1))
        assert shared.of("b", lambda: 1) == 1  # which is not kept
        assert shared.of("b", lambda: 2) == 2
        assert shared.of("a", lambda: 3) is kept

    def test_what_failed_is_tried_again(self) -> None:
        shared = SharedDraws()
        with pytest.raises(ZeroDivisionError):
            shared.of("a", lambda: 1 / 0)
        assert shared.of("a", lambda: np.ones(1)) == 1

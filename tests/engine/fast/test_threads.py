"""Lanes in threads of their own: the same bits, the same settings of JAX, one end for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.backend import CPU, GPU
from nu_ensembles.engine.fast import threads
from nu_ensembles.engine.fast.threads import side_by_side
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Nu


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert side_by_side([lambda _, n=n: n * n for n in range(5)]) == [0, 1, 4, 9, 16]


def test_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_cores", lambda: 1)
    assert len(set(side_by_side([lambda _: threading.get_ident() for _ in range(4)]))) == 1


def test_settings_of_jax_hold_in_the_threads() -> None:
    def dtype(_: threading.Event) -> str:
        return str(jnp.zeros(1).dtype)

    assert side_by_side([dtype]) == ["float32"]
    with jax.enable_x64(True):
        assert side_by_side([dtype]) == ["float64"]
    with jax.default_matmul_precision("highest"):
        seen = side_by_side([lambda _: jax.config.jax_default_matmul_precision])  # pyright: ignore[reportAttributeAccessIssue]
    assert seen == ["highest"]
    with jax.default_device(jax.devices()[0]):
        assert side_by_side([lambda _: jax.config.jax_default_device]) == [jax.devices()[0]]  # pyright: ignore[reportAttributeAccessIssue]


def test_an_error_in_one_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_cores", lambda: 2)

    def fails(_: threading.Event) -> bool:
        raise MemoryError("no room")

    ended = []
    with pytest.raises(MemoryError, match="no room"):
        side_by_side([fails, lambda stopped: ended.append(stopped.wait(60))])
    assert ended == [True]


def test_what_runs_in_the_background_is_done_at_the_end_with_the_settings_of_here() -> None:
    seen: list[str] = []
    with jax.enable_x64(True), CPU.ahead(lambda: seen.append(str(jnp.zeros(1).dtype))):
        here = threading.get_ident()
    assert seen == ["float64"]

    with CPU.ahead(lambda: seen.append(str(threading.get_ident()))):
        pass
    assert seen[1] != str(here)
    with GPU.ahead(lambda: seen.append("where kernels are timed")):
        pass
    assert len(seen) == 2


def test_an_error_in_the_background_is_raised_at_the_end_unless_there_was_one_before() -> None:
    def fails() -> None:
        raise MemoryError("no room")

    reached = []
    with pytest.raises(MemoryError, match="no room"), CPU.ahead(fails):
        reached.append(True)
    assert reached == [True]
    with pytest.raises(ValueError, match="first"), CPU.ahead(fails):
        raise ValueError("first")


def test_lanes_side_by_side_have_the_bits_of_lanes_alone(assembled, largest_difference) -> None:
    ready = assembled(Nu(0.1))
    together = Run(ready.program, ready.lanes, ready.data, on_host=True)
    losses: list[np.ndarray] = []
    for to_step in (3, 7):
        together.advance(to_step, lambda _, mean: losses.append(mean))
    for lane in range(3):
        alone = Run(ready.program, ready.lanes.select(np.array([lane])), ready.data, on_host=True)
        own: list[np.ndarray] = []
        for to_step in (3, 7):
            alone.advance(to_step, lambda _, mean, own=own: own.append(mean))
        state = jax.tree.map(lambda leaf, lane=lane: leaf[lane : lane + 1], together.state)
        assert largest_difference(state, alone.state) == 0
        np.testing.assert_allclose([mean[lane] for mean in losses], [mean[0] for mean in own], rtol=1e-6)


@pytest.fixture
def compiled(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was compiled since it was last asked for, in any thread."""

    def names() -> list[str]:
        messages = [each.getMessage() for each in caplog.records]
        caplog.clear()
        return [each.split()[4] for each in messages if each.startswith("Finished XLA compilation of")]

    before = jax.config.jax_log_compiles  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_log_compiles", True)
    yield names
    jax.config.update("jax_log_compiles", before)


@pytest.mark.parametrize(
    ("on_host", "programs"), [(False, ["jit(steps_of_a_block)"]), (True, ["jit(first_half)", "jit(second_half)"])]
)
def test_what_is_compiled_ahead_is_what_is_called(
    assembled, compiled: Callable[[], list[str]], on_host: bool, programs: list[str]
) -> None:
    ready = assembled(Nu(0.1), batch_size=9 + on_host)  # no other test's program
    Run(ready.program, ready.lanes, ready.data, on_host=on_host).advance(3)
    names = compiled()
    assert [names.count(program) for program in programs] == [1] * len(programs)
    Run(ready.program, ready.lanes, ready.data, on_host=on_host).advance(3)
    assert compiled() == []

"""A signal waits until the state is consistent; one that is ignored stays ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from nu_ensembles.lifecycle.interrupts import Terminated, held_interrupts, termination_raises


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """A process in the background may ignore SIGINT; here it raises, whoever started the tests."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), earlier, strict=True):
        signal.signal(number, handler)


def work(*signals: signal.Signals, answer: str = "") -> list[str]:
    """Work during which signals come; what was done of it."""
    done = []
    with held_interrupts() as asked:
        for number in signals:
            signal.raise_signal(number)
            done.append("went on")
        if asked.is_set() and answer:
            asked.obey(answer)
    return done


def test_what_stops_the_work_waits_for_its_end_and_the_handlers_are_put_back() -> None:
    with pytest.raises(KeyboardInterrupt):
        work(signal.SIGINT)
    with pytest.raises(Terminated, match="stopped by SIGTERM") as ended:
        work(signal.SIGTERM)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_signal_stops_at_once() -> None:
    done = []

    def press_twice() -> None:
        with held_interrupts():
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
                done.append("went on")

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert done == ["went on"]


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_the_answer_says_how_to_go_on(number: signal.Signals, kind: type[BaseException]) -> None:
    with pytest.raises(kind, match="can be resumed"):
        work(number, answer="Stopped; the run can be resumed.")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with held_interrupts() as asked:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert not asked.is_set()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_a_sigterm_that_somebody_else_handles_is_theirs() -> None:
    came = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    with termination_raises(), held_interrupts() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert not asked.is_set()
    assert came == [signal.SIGTERM]


def test_on_the_command_line_sigterm_raises_and_waits_where_it_is_held() -> None:
    def stopped_at_once() -> None:
        with termination_raises():
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("went on")

    def stopped_at_the_end() -> None:
        with termination_raises():
            work(signal.SIGTERM)

    for stopped in (stopped_at_once, stopped_at_the_end):
        with pytest.raises(Terminated):
            stopped()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

"""Leases on the trials that run: who has one, and that it still lives.

A worker counts its beats in the database; whoever waits watches them by a clock of its own, so no two clocks need to
agree. A lease whose beats stand still for long enough is another's for the taking: by one statement that changes it
only if nobody has in the meantime. Should its holder live after all (it was suspended), both come to the same trial.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

TABLE = "nu_ensembles_leases"
USUAL_SECONDS = 60.0
BEATS_A_LEASE = 6


class Leases:
    """The leases of one worker on the trials of one search.

    Args:
      engine: of SQLAlchemy.
      study: the search's number in the database.
      place: where the worker keeps its files, "" for nowhere. It is alone there: a lease from there that is not its
        own is of a life that has ended.
      seconds: how long beats may stand still.
    """

    def __init__(self, engine: Any, study: int, place: str = "", seconds: float = USUAL_SECONDS) -> None:
        import sqlalchemy as sql  # pyright: ignore[reportMissingImports]

        self._engine, self._study, self._sql = engine, study, sql
        self._place, self._owner, self.seconds = place[:500], uuid.uuid4().hex, seconds
        number, text = sql.Integer, sql.String
        self._table = sql.Table(
            TABLE,
            sql.MetaData(),
            sql.Column("study", number, primary_key=True, autoincrement=False),
            sql.Column("trial", number, primary_key=True, autoincrement=False),
            sql.Column("owner", text(32), nullable=False),
            sql.Column("place", text(500), nullable=False),
            sql.Column("beat", number, nullable=False),
        )
        self._table.create(engine, checkfirst=True)
        self._seen: dict[int, tuple[str, int, float]] = {}

    def take(self, trials: Iterable[int]) -> list[int]:
        """Those of these trials that are now this worker's: they were nobody's, or of somebody who is gone."""
        held = self._held()
        taken: list[int] = []
        for trial in trials:
            if trial not in held:
                taken += [trial] if self._insert(trial) else []
            elif self._is_gone(trial, *held[trial]):
                owner, _, beat = held[trial]
                taken += [trial] if self._replace(trial, owner, beat) else []
        return taken

    def give_back(self, trials: Iterable[int]) -> None:
        """Ends this worker's leases on trials: they have ended, or another may begin them."""
        table, numbers = self._table, list(trials)
        mine = (table.c.study == self._study) & (table.c.owner == self._owner) & table.c.trial.in_(numbers)
        with self._engine.begin() as connection:
            connection.execute(table.delete().where(mine))

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Within it this worker lives for all others to see."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self.seconds / BEATS_A_LEASE):
                with contextlib.suppress(Exception):  # one that is missed is not the last
                    self._beat()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _held(self) -> dict[int, tuple[str, str, int]]:
        table = self._table
        asked = self._sql.select(table.c.trial, table.c.owner, table.c.place, table.c.beat)
        with self._engine.connect() as connection:
            rows = connection.execute(asked.where(table.c.study == self._study)).all()
        return {row.trial: (row.owner, row.place, row.beat) for row in rows}

    def _is_gone(self, trial: int, owner: str, place: str, beat: int) -> bool:
        if self._place and place == self._place and owner != self._owner:
            return True
        now = time.monotonic()
        if self._seen.get(trial, ("", -1, 0.0))[:2] != (owner, beat):
            self._seen[trial] = owner, beat, now
        return now - self._seen[trial][2] > self.seconds

    def _insert(self, trial: int) -> bool:
        row = {"study": self._study, "trial": trial, "owner": self._owner, "place": self._place, "beat": 0}
        try:
            with self._engine.begin() as connection:
                connection.execute(self._table.insert().values(**row))
        except self._sql.exc.IntegrityError:  # somebody was faster
            return False
        return True

    def _replace(self, trial: int, owner: str, beat: int) -> bool:
        table = self._table
        as_seen = (table.c.owner == owner) & (table.c.beat == beat)
        this = (table.c.study == self._study) & (table.c.trial == trial) & as_seen
        with self._engine.begin() as connection:
            changed = table.update().where(this).values(owner=self._owner, place=self._place, beat=0)
            return connection.execute(changed).rowcount == 1

    def _beat(self) -> None:
        table = self._table
        mine = (table.c.study == self._study) & (table.c.owner == self._owner)
        with self._engine.begin() as connection:
            connection.execute(table.update().where(mine).values(beat=table.c.beat + 1))


def patiently(attempt: Callable[[], Any], seconds: float, passing: tuple[type[Exception], ...]) -> Any:
    """What an attempt gives, however often it fails in a way that may pass; the failure so long after the first."""
    until = float("inf")
    while True:
        try:
            return attempt()
        except passing:
            # However long the first attempt took, there is a second one.
            until = min(until, time.monotonic() + seconds)
            if time.monotonic() >= until:
                raise
            time.sleep(min(1.0, seconds / 10))

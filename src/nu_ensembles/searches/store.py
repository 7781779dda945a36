"""Where the trials of a search lie: an Optuna study in a database, which Optuna's own tools can open.

A trial is written when it has ended, whole, in one transaction, so no kill leaves half of one. While it runs there is a
lease on it, in a table beside Optuna's (`leases.py`). Optuna counts trials in the order in which they ended; the number
that decides a trial's draws is an attribute of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from nu_ensembles.contents import listing, number, optional, text, unfit, whole
from nu_ensembles.errors import InputError
from nu_ensembles.searches.draws import distribution, imported_optuna, plain
from nu_ensembles.searches.heat import Measured
from nu_ensembles.searches.leases import USUAL_SECONDS, Leases, patiently
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.searches.trial import SearchTrial, in_space

FINGERPRINT, NUMBER, SCORES, REASON = (f"nu_ensembles:{name}" for name in ("fingerprint", "number", "scores", "reason"))
# Seconds in which a database must answer, for which one that has answered may be away, and for which two that begin at
# once may be in each other's way.
CONNECT, AWAY, RACE = 10, 60.0, 2.0


class TrialStore:
    """The trials of one search in a database.

    Args:
      url: "sqlite:///FILE", "postgresql://USER@HOST/NAME", or another that SQLAlchemy knows.
      name: of the search in it.
      place, lease_seconds: see `Leases`.

    Raises:
      InputError: the database cannot be reached, or holds another search under this name.
    """

    def __init__(
        self,
        url: str,
        name: str,
        setting: SearchSetting,
        fingerprint: str,
        place: str = "",
        lease_seconds: float = USUAL_SECONDS,
    ) -> None:
        self._optuna = imported_optuna()
        self._url, self._setting = url, setting
        self._known: dict[int, SearchTrial] = {}
        self._read: set[int] = set()
        ways = ["maximize" if each.is_large else "minimize" for each in setting.objectives]
        with self._in_reach():
            # Two workers that begin at once may both make the tables, and one of them fails.
            storage = patiently(self._storage, RACE, self._passing())
            self._engine = storage.engine
            self._study = patiently(
                lambda: self._optuna.create_study(
                    storage=storage, study_name=name, directions=ways, load_if_exists=True
                ),
                RACE,
                self._passing(),
            )
            attributes = self._study.user_attrs
            if FINGERPRINT not in attributes and not attributes and not self._study.get_trials(deepcopy=False):
                self._study.set_user_attr(FINGERPRINT, fingerprint)
                attributes = self._study.user_attrs
            self.leases = Leases(self._engine, self._study._study_id, place, lease_seconds)
        if attributes.get(FINGERPRINT) != fingerprint:
            raise self._of_other_data(name)

    def _of_other_data(self, name: str = "") -> InputError:
        return InputError(
            f"The search {f'{name!r} ' if name else ''}in {self.shown} belongs to other data or settings; use the same "
            "ones to resume it, or give this search another name (--name)."
        )

    @property
    def shown(self) -> str:
        """The database's address without a password."""
        with contextlib.suppress(Exception):
            import sqlalchemy  # pyright: ignore[reportMissingImports]

            return sqlalchemy.engine.make_url(self._url).render_as_string(hide_password=True)
        return "the database"

    def trials(self) -> dict[int, SearchTrial]:
        """All trials that have ended, by their numbers."""
        with self._in_reach():
            found = patiently(lambda: self._study.get_trials(deepcopy=False), AWAY, self._passing())
        for each in found:
            if each.number not in self._read and NUMBER in each.user_attrs and each.state.is_finished():
                self._read.add(each.number)
                trial = self._parsed(each)
                # Where a worker that was taken for dead ended, too, both came to the same.
                self._known.setdefault(trial.number, trial)
        return dict(self._known)

    def add(self, trial: SearchTrial) -> None:
        """Writes a trial that has ended."""
        setting, make = self._setting, self._optuna.trial
        space = setting.space.parameters
        scores = [[[None if np.isnan(v) else float(v) for v in of] for of in at] for at in trial.scores]
        first = trial.scores[:, 0, 0] if trial.scores.size else []
        curve = {int(step): float(v) for step, v in zip(trial.stops, first, strict=False) if np.isfinite(v)}
        frozen = make.create_trial(
            state=make.TrialState.FAIL if trial.failed else make.TrialState.COMPLETE,
            values=trial.values,
            params={each.name: plain(trial.parameters[each.name]) for each in space},
            distributions={each.name: distribution(each) for each in space},
            user_attrs={NUMBER: trial.number, SCORES: scores, REASON: trial.reason},
            intermediate_values=curve,
        )
        with self._in_reach():
            patiently(lambda: self._study.add_trial(frozen), AWAY, self._passing())
        self._known[trial.number] = trial

    @property
    def known(self) -> Mapping[int, SearchTrial]:
        """Those that have been read or written, without another look."""
        return self._known

    def take(self, numbers: Iterable[int]) -> list[int]:
        """See `Leases.take`; without those that ended a moment before their lease did."""
        numbers = list(numbers)
        with self._in_reach():
            taken = patiently(lambda: self.leases.take(numbers), AWAY, self._passing())
        ended = self.trials().keys() & set(taken) if taken else set()
        if ended:
            self.give_back(ended)
        return [each for each in taken if each not in ended]

    def give_back(self, numbers: Iterable[int]) -> None:
        """See `Leases.give_back`."""
        with self._in_reach():
            patiently(lambda: self.leases.give_back(numbers), AWAY, self._passing())

    def close(self) -> None:
        """Ends the connections."""
        self._engine.dispose()

    def _storage(self) -> Any:
        import sqlalchemy  # pyright: ignore[reportMissingImports]

        url = sqlalchemy.engine.make_url(self._url)
        # Without a driver's name SQLAlchemy would look for the older of PostgreSQL's two.
        url = url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url
        patience = {"sqlite": {"timeout": 6 * CONNECT}}.get(url.get_backend_name(), {"connect_timeout": CONNECT})
        how = {"connect_args": patience, "pool_pre_ping": True}
        return self._optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=how)

    def _passing(self) -> tuple[type[Exception], ...]:
        from sqlalchemy import exc  # pyright: ignore[reportMissingImports]

        return exc.DBAPIError, self._optuna.exceptions.StorageInternalError

    @contextlib.contextmanager
    def _in_reach(self) -> Iterator[None]:
        from sqlalchemy import exc  # pyright: ignore[reportMissingImports]

        try:
            yield
        except ImportError as error:
            said = " ".join(str(error).split()).rstrip(".")
            raise InputError(
                f"The storage {self.shown} needs a driver that is not installed ({said}): install it, or use sqlite or "
                "postgresql."
            ) from None
        except self._optuna.exceptions.DuplicatedStudyError:
            raise self._of_other_data() from None
        except (exc.ArgumentError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"--storage is an address such as sqlite:///search.db or postgresql://user@host/name, not one that "
                f"leads to this: {error}."
            ) from None
        except (exc.SQLAlchemyError, self._optuna.exceptions.StorageInternalError, RuntimeError) as error:
            cause = " ".join(str(error.__cause__ or error).split())[:200]
            raise InputError(
                f"The database {self.shown} cannot be used ({cause}): see that it runs and its address is right, then "
                "give the same command again; what has ended is in it."
            ) from None

    def _parsed(self, stored: Any) -> SearchTrial:
        """A trial as it was; what others may have put into the database is checked."""
        setting, attributes = self._setting, stored.user_attrs
        where = f"Trial {stored.number} in {self.shown}"
        count = whole()(attributes[NUMBER], f"{where}: its number")
        each_score = optional(number(finite=False))
        listed = listing(listing(listing(each_score)))(attributes.get(SCORES), f"{where}: its scores")
        reason = text()(attributes.get(REASON), f"{where}: its reason")
        n_stops, n_objectives = len(setting.stops), len(setting.objectives)
        scores = _array(listed) if listed else np.zeros((0, n_objectives, 1))
        fits = scores.ndim == 3 and scores.shape[:2] == (n_stops, n_objectives)
        if not (fits or (reason and not listed)) or stored.params.keys() != set(setting.space.names):
            raise unfit(where, "one of this search", None)
        try:
            parameters = in_space(setting.space, stored.params)
        except StopIteration:
            raise unfit(where, "one of this space", None) from None
        return SearchTrial.of(count, parameters, Measured(scores, reason), setting.objectives, setting.stops)


def _array(listed: Any) -> np.ndarray:
    """Scores `[S, objectives, 1 + P]`; of another shape where lists differ in length."""
    try:
        return np.array([[[np.nan if v is None else v for v in of] for of in at] for at in listed], float)
    except ValueError:
        return np.zeros(0)

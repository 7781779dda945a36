"""`nu.tune`: a search over networks, methods and how they train."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.checks import check_flag, check_positive, check_whole, checked
from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles.problem import labelled_pair, prepare
from nu_ensembles.progress import step_bar
from nu_ensembles.rows import LazyRows
from nu_ensembles.searches.draws import USUAL_GENERATION, ParameterDraws, SamplerName, imported_optuna
from nu_ensembles.searches.leases import USUAL_SECONDS
from nu_ensembles.searches.naming import Fixed, check_space
from nu_ensembles.searches.objectives import objectives_of
from nu_ensembles.searches.outcome import SearchOutcome
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.searches.space import Space
from nu_ensembles.searches.store import TrialStore
from nu_ensembles.searches.trial import SearchTrial
from nu_ensembles.searches.working import Here, HowToSearch, RunHeats, Worker
from nu_ensembles.tables import ColumnTypes
from nu_ensembles.training import steps_in
from nu_ensembles.tuning.folds import folds_of

DATABASE, RESULTS = "search.db", "results.json"


@checked
def tune(
    space: Any,
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    *,
    n_trials: int = 64,
    objective: str | Sequence[str] = "nll",
    sampler: SamplerName = "tpe",
    seed: int = 0,
    model: str = "mlp",
    model_options: Mapping[str, Any] | None = None,
    method: str | None = None,
    method_options: Mapping[str, Any] | None = None,
    batch_size: int = 32,
    unlabeled_batch_size: int | None = None,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    augment: str | Augmentation | None = None,
    standardize: bool | None = None,
    column_types: ColumnTypes | None = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    max_iter: int = 500,
    n_stops: int = 12,
    n_members: int = 3,
    cv: Any = 5,
    validation: tuple[Any, Any] | None = None,
    plan: str = "auto",
    drops: bool = True,
    folder: str | Path | None = None,
    storage: str | None = None,
    name: str = "nu-ensembles",
    time_limit: float | None = None,
    together: int = 8,
    generation: int = USUAL_GENERATION,
    lease_seconds: float = USUAL_SECONDS,
    run_heats: RunHeats | None = None,
    on_trial: Callable[[SearchTrial], None] | None = None,
    verbose: int = 0,
) -> SearchOutcome:
    """Searches for what trains best on held-out rows: networks, methods, rates, and for how long.

    Trials of one shape train side by side as lanes of one program, and every trial is scored at steps along its way, so
    that the length of training is found without being searched for. A trial depends on the seed and its number, and
    under "tpe" on the generations before its own: a search that is killed and goes on, or that several workers share,
    is the same search. It lies in an Optuna database (`pip install 'nu-ensembles[tune]'`).

    Args:
      space: a mapping of parameters, or the path of a YAML file that holds one: `{"learning_rate": {"log": [1e-4,
        1e-2]}, "width": {"int": [16, 128], "step": 16}, "method": {"choice": ["standard", "nu"]}}`.
      x: `[N, …]`, labelled rows; as for `nu.fit`.
      y: `[N]`, labels of any type.
      x_unlabeled: `[M, …]`, or None.
      n_trials: how many; a later search with more goes on from these.
      objective: "nll" or another metric of held-out predictions, or two of them: then `front` is what to look at.
      sampler: "tpe", "random" or "grid".
      seed: of the draws, and of all networks.
      model: a built-in network, where the space names none; its trials need one that can be built by its name.
      model_options: of that network, as a dict.
      method: a method by its name, where the space names none: "nu" by default, "standard" without unlabelled rows.
      method_options: of that method, as a dict.
      batch_size: labelled rows a member sees in a step; this and all others, where the space does not say.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate: of AdamW.
      weight_decay: of AdamW.
      augment: "flip_crop" or a callable, for labelled images.
      standardize: as for `nu.fit`.
      column_types: as for `nu.fit`.
      classes: all classes, if y does not hold each of them.
      max_iter: passes over the labelled rows of the longest training.
      n_stops: at how many steps, evenly in their logarithm, a trial is scored.
      n_members: networks of a fold, whose mean is scored.
      cv: folds: a number, a scikit-learn splitter or an iterable of splits.
      validation: `(x, y)` that takes the place of the folds.
      plan: how members run; see `nu.fit`.
      drops: end a trial whose NLL is clearly past its best, where that is the only objective.
      folder: where the search keeps its database, `results.json` and, if a page was asked for, that; None for nowhere.
      storage: a database that several workers share, such as "postgresql://user@host/name", instead of the folder's.
      name: of the search in that database.
      time_limit: seconds; no trials are started that are not expected to end by then.
      together: how many trials train side by side at most.
      generation: how many trials "tpe" draws from the same evidence; that many can be shared by workers.
      lease_seconds: how long a worker may be silent until others take its trials over.
      run_heats: where trials run; None for this process.
      on_trial: is told of every trial that has ended.
      verbose: 0 is silent; otherwise a progress bar on a terminal.

    Returns:
      the `SearchOutcome`: `best`, `front`, `trials`, `verdict`, and `fit()` for the ensemble.

    Raises:
      InputError: data, options or a space that cannot be used, or a database that cannot be reached or holds another
        search.
      MissingExtraError: Optuna is not installed.
    """
    imported_optuna()
    objectives, space = objectives_of(objective), Space.of(space)
    n_trials, together = check_whole(n_trials, "n_trials"), check_whole(together, "together")
    if time_limit is not None:
        check_positive(time_limit, "time_limit")
    check_positive(lease_seconds, "lease_seconds")
    problem = prepare(
        x, y, x_unlabeled, None, classes, standardize, names=("x", "x_unlabeled"), column_types=column_types
    )
    if isinstance(problem.x_unlabeled, LazyRows):
        raise InputError(
            "A search trains on unlabelled rows in memory, and these stay in their files; give an array of some."
        )
    settings = Settings(
        batch_size=batch_size,
        unlabeled_batch_size=unlabeled_batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        augment=augment,
        plan=plan,
    )
    fixed = Fixed(
        model,
        tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in sorted((model_options or {}).items())),
        method or ("nu" if problem.n_unlabeled else "standard"),
        tuple(sorted((method_options or {}).items())),
        settings,
    )
    check_space(space, fixed)
    draws = ParameterDraws(space, objectives, seed, sampler, generation)
    held_out, folds = None, []
    if validation is not None:
        held_out = problem.further_rows(*labelled_pair(validation), "the validation x")
    else:
        n_rows = len(np.atleast_1d(np.asarray(y, object)))
        folds = folds_of(cv, problem.y, seed, problem.row_numbers, n_rows, problem.classes)
    setting = SearchSetting(
        problem,
        tuple(folds),
        held_out,
        fixed,
        space,
        objectives,
        n_members=check_whole(n_members, "n_members"),
        n_steps=steps_in(check_whole(max_iter, "max_iter"), len(problem.x), batch_size),
        n_stops=check_whole(n_stops, "n_stops"),
        seed=seed,
        # Other metrics may be at their best long after the NLL.
        drops=check_flag(drops, "drops") and [each.name for each in objectives] == ["nll"],
    )
    _try_choices(setting, draws)
    how = HowToSearch(
        n_trials,
        storage,
        name,
        time_limit,
        together,
        lease_seconds,
        run_heats or Here(),
        on_trial or (lambda trial: None),
        verbose,
    )
    if folder is None:
        return searched(setting, draws, how)
    with LifeFolder(folder, "search") as life:
        if life.started and not life.unfinished and not (life.folder / RESULTS).exists():
            raise InputError(f"The folder {life.folder} holds something else than a search: choose another.")
        life.begin()
        outcome = searched(setting, draws, how, life.folder)
        outcome.write(life.folder / RESULTS)
        if len(outcome.trials) == outcome.n_wanted:
            life.end()
    return outcome


def searched(
    setting: SearchSetting, draws: ParameterDraws, how: HowToSearch, folder: Path | None = None
) -> SearchOutcome:
    """Carries a search out, or on."""
    if draws.sampler == "grid":
        how = dataclasses.replace(how, n_trials=min(how.n_trials, draws.space.grid_size()))
    with contextlib.ExitStack() as stack:
        where = folder
        if where is None and how.storage is None:
            where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nu-ensembles-search-")))
        url = how.storage or f"sqlite:///{Path(where or '.').resolve() / DATABASE}"
        place = "" if folder is None else f"{platform.node()}:{folder.resolve()}"
        store = TrialStore(url, how.name, setting, _fingerprint(setting, draws), place, how.lease_seconds)
        stack.callback(store.close)
        n_done = sum(number < how.n_trials for number in store.trials())
        a_trial = int(setting.stops[-1]) * setting.n_members * max(1, len(setting.folds))
        bar = step_bar(f"{how.n_trials} trials", a_trial * how.n_trials, a_trial * n_done, how.verbose)
        trials = Worker(setting, draws, store, how, stack.enter_context(bar)).work()
    return SearchOutcome(setting, tuple(trials), how.n_trials)


def _fingerprint(setting: SearchSetting, draws: ParameterDraws) -> str:
    """Of all that decides the search: another's trials are not to be mixed with these."""
    size = draws.generation if draws.sampler == "tpe" else 0
    return hashlib.sha256(f"{setting.fingerprint()} {draws.sampler} {size} {draws.seed}".encode()).hexdigest()


def _try_choices(setting: SearchSetting, draws: ParameterDraws) -> None:
    """Refuses a choice that no trial could train with, now and not in mid-search."""
    some = ParameterDraws(setting.space, setting.objectives, draws.seed, "random").of_generation(0, 1, {})[0]
    setting.job(some)
    for each in setting.space.parameters:
        for value in each.choices if each.kind == "choice" else (each.low, each.high):
            value = int(value) if each.kind == "int" else value
            try:
                setting.job({**some, each.name: value})
            except InputError as error:
                raise InputError(f"The space: {each.name} cannot be {value!r}: {error}") from None

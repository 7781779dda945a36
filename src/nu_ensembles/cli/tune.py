"""`nu-ensembles tune`: a search over networks, methods and how they train."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

from nu_ensembles.cli.options import (
    FLAG,
    NETWORK,
    OUTPUT,
    RUN,
    TRAINING,
    DataOptions,
    Json,
    Layers,
    PlaceOptions,
    Quiet,
)
from nu_ensembles.cli.output import show

if TYPE_CHECKING:
    from nu_ensembles.searches import SearchOutcome

SEARCH = Group("Search", sort_key=1)
_DATA = DataOptions()
MODEL, MANIFEST, FOUND_BY = "model", "manifest.json", "search"


def names(_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
    """`nll,ece` as one word."""
    return tuple(part for token in tokens for part in token.value.split(",") if part)


Names = Annotated[tuple[str, ...], Parameter(converter=names, n_tokens=1, metavar="NAME,NAME", negative=())]


@Parameter(name="*", group=SEARCH)
@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """What is searched for, and how.

    Attributes:
      trials: How many. A later command with more goes on from these.
      objective: A metric of held-out predictions, such as nll, brier, ece or accuracy; or two, as in nll,ece.
      sampler: tpe learns from earlier trials, random and grid do not.
      cv: Folds that trials are scored on.
      validation: File of labelled rows that takes the place of the folds.
      fold_members: Networks of a fold, whose mean is scored.
      together: Trials that train side by side at most.
      generation: Trials that tpe draws from the same evidence; so many can be shared by workers.
    """

    trials: int = 64
    objective: Names = ("nll",)
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    cv: int = 5
    validation: Path | None = None
    fold_members: int = 3
    together: int = 8
    generation: int = 16


@Parameter(name="*")
@dataclasses.dataclass(frozen=True)
class FixedOptions:
    """What a training is where the space says nothing.

    Attributes:
      model: mlp, mlp_large, lenet, signal (series), wide_resnet, or wrn-DEPTH-WIDTH such as wrn-22-4.
      hidden: Units of each hidden layer of mlp, as in 64,64.
      standardize: Scale columns to mean 0 and variance 1; auto does so for tables and leaves images alone.
      augment: Random flips and crops of labelled images.
      method: nu, or another method whose members train independently; by default nu where there are unlabelled rows.
      max_iter: Passes over the labelled rows of the longest training; every shorter one is scored on the way.
      batch_size: Labelled rows that a member sees in a step.
      learning_rate: Of AdamW, constant.
      weight_decay: Of AdamW.
      seed: The same seed, data and space give the same search.
      plan: How members run: auto, vectorised, sequential or sharded.
    """

    model: Annotated[str, Parameter(group=NETWORK)] = "mlp"
    hidden: Annotated[Layers, Parameter(group=NETWORK)] = None
    standardize: Annotated[Literal["auto", "always", "never"], Parameter(group=NETWORK)] = "auto"
    augment: Annotated[Literal["flip_crop"] | None, Parameter(group=NETWORK)] = None
    method: Annotated[str | None, Parameter(group=TRAINING)] = None
    max_iter: Annotated[int, Parameter(group=TRAINING)] = 500
    batch_size: Annotated[int, Parameter(group=TRAINING)] = 32
    learning_rate: Annotated[float, Parameter(group=TRAINING)] = 1e-3
    weight_decay: Annotated[float, Parameter(group=TRAINING)] = 1e-4
    seed: Annotated[int, Parameter(group=TRAINING)] = 0
    plan: Annotated[str, Parameter(group=TRAINING)] = "auto"


@Parameter(name="*", group=RUN)
@dataclasses.dataclass(frozen=True)
class WhereOptions:
    """Where trials lie and run.

    Attributes:
      storage: Database that several workers share, as in postgresql://user@host/name; by default a file in --out. Every
        worker gives the same command with an --out of its own.
      name: Of the search in that database.
      time_limit: Seconds; no trials are started that are not expected to end by then. The same command goes on later.
      lease: Seconds that a worker may be silent until others take its trials over.
    """

    storage: str | None = None
    name: str = "nu-ensembles"
    time_limit: float | None = None
    lease: float = 60.0


_SEARCH, _FIXED, _WHERE, _PLACE = SearchOptions(), FixedOptions(), WhereOptions(), PlaceOptions()


def tune(
    train: Path,
    *,
    space: Annotated[Path, Parameter(group=SEARCH)],
    data: DataOptions = _DATA,
    search: SearchOptions = _SEARCH,
    fixed: FixedOptions = _FIXED,
    where: WhereOptions = _WHERE,
    place: PlaceOptions = _PLACE,
    members: Annotated[int, Parameter(group=OUTPUT)] = 10,
    search_only: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for the network, method and rates that predict held-out rows best, and train an ensemble with them.

    The space is a YAML file with a line for each parameter:

    ```
    learning_rate: {log: [1e-4, 1e-2]}
    weight_decay: {log: [1e-6, 1e-2]}
    beta: {choice: [0, 0.001, 0.01]}
    width: {int: [32, 128], step: 32}
    ```

    Trials of one shape train side by side in one program, and each is scored along its way: the length of training is
    found and needs no parameter. What was found lies in an Optuna database; a search that was stopped or killed goes on
    when the same command is given again, and comes to the same. Needs `pip install 'nu-ensembles[tune]'`.

    ```
    nu-ensembles tune train.csv --target species --space space.yaml
    nu-ensembles tune train.npz --unlabeled more.npz --space s.yaml --out found
    nu-ensembles tune train.npz --space s.yaml --objective nll,ece --trials 200
    nu-ensembles tune train.npz --space s.yaml --time-limit 3600
    nu-ensembles tune train.npz --space s.yaml --storage postgresql://me@host/db
    ```

    Args:
      train: Labelled rows: a .csv (.tsv, .csv.gz), .npz or .parquet file, or a folder of images with a sub-folder for
        each class. Rows of a table without a label are unlabelled rows.
      space: YAML file of the parameters: numbers (float, log), whole numbers (int) or a choice. Names are options of
        the training (learning_rate, weight_decay, batch_size, augment), of the network (model, width, layers, dropout)
        and of the method (method, beta).
      members: Networks of the ensemble that is trained with what was found.
      search_only: Train no ensemble in the end; for all workers but one.
      out: Folder of the search: its database, results.json, report.html and the model; by default named after the
        training file, as in train-search.
      json: Print one JSON object.
      quiet: Show no progress.
    """
    from nu_ensembles.cli.data import read_training_files
    from nu_ensembles.estimator.arguments import wants_standardisation
    from nu_ensembles.searches import Space
    from nu_ensembles.searches import tune as searched
    from nu_ensembles.searches.draws import imported_optuna
    from nu_ensembles_studies.run.heats import heats_on

    imported_optuna()
    started, parsed = time.perf_counter(), Space.of(space)
    out = out or Path(f"{train.name.split('.')[0].strip('-') or 'rows'}-search")
    files = read_training_files(train, data, search.validation)
    scaling = {"auto": "auto", "always": True, "never": False}[fixed.standardize]
    given = {name: getattr(fixed, name) for name in ("batch_size", "learning_rate", "weight_decay", "augment", "plan")}
    with heats_on(**vars(place)) as run_heats:
        outcome: SearchOutcome = searched(
            parsed,
            files.X,
            files.y,
            files.U,
            n_trials=search.trials,
            objective=search.objective,
            sampler=search.sampler,
            seed=fixed.seed,
            model=fixed.model,
            model_options=None if fixed.hidden is None else {"hidden": fixed.hidden},
            method=fixed.method,
            standardize=wants_standardisation(scaling, files.X),
            column_types=files.description.column_types,
            max_iter=fixed.max_iter,
            n_members=search.fold_members,
            cv=search.cv,
            validation=files.validation,
            folder=out,
            storage=where.storage,
            name=where.name,
            time_limit=where.time_limit,
            together=search.together,
            generation=search.generation,
            lease_seconds=where.lease,
            verbose=0 if quiet else 1,
            run_heats=run_heats,
            **given,
        )
    result: dict[str, Any] = {"command": "tune", "out": out, "n_trials": len(outcome.trials)}
    result["n_left"] = outcome.n_wanted - len(outcome.trials)
    if not outcome.trials:
        show(result, f"No trial ended in time; give the same command again to go on. The search is in {out}.", json)
        return
    best = outcome.best
    result |= {
        "best": best.to_dict(),
        "parameters": outcome.best_parameters,
        "n_steps": outcome.n_steps,
        "expected": outcome.expected,
        "verdict": outcome.verdict,
        "front": [{"trial": p.trial.number, "n_steps": p.n_steps, "values": p.values} for p in outcome.front],
        "report": _draw(outcome, out, time.perf_counter() - started),
    }
    if not result["n_left"] and not search_only:
        result["model"] = _trained(outcome, out / MODEL, members, dataclasses.asdict(files.description), not quiet)
    show(result, _in_words(result), json)


def _draw(outcome: SearchOutcome, out: Path, seconds: float) -> Path | None:
    from nu_ensembles.searches.page import PAGE, write_search_page
    from nu_ensembles.training import environment

    try:
        write_search_page(out / PAGE, outcome, shlex.join(["nu-ensembles", *_own_words()]), seconds, environment())
    except ModuleNotFoundError as error:
        print(f"No page was drawn, because {error.name} is missing here.", file=sys.stderr)
        return None
    return out / PAGE


def _own_words() -> list[str]:
    """The command line, but for the address of a database, which may hold a password."""
    words = sys.argv[1:]
    hidden = [word == "--storage" for word in ["", *words]]
    return [
        "DATABASE" if hide else "--storage=DATABASE" if word.startswith("--storage=") else word
        for word, hide in zip(words, hidden, strict=False)
    ]


def _trained(outcome: SearchOutcome, place: Path, members: int, data: dict[str, Any], verbose: bool) -> Path:
    """The ensemble that the search found, in its place; left alone if it is there."""
    from nu_ensembles.checks import check_whole
    from nu_ensembles.ensemble import Ensemble

    members = check_whole(members, "members")
    about = {"fingerprint": outcome.setting.fingerprint(), "trial": outcome.best.number, "n_steps": outcome.n_steps}
    if (place / MANIFEST).is_file():
        there = Ensemble.load(place)
        if there.training.get(FOUND_BY) == about and there.n_members == members:
            return place
    ensemble = outcome.fit(members, verbose=int(verbose), data=data, **{FOUND_BY: about})
    if place.exists():  # of a search with fewer trials
        shutil.rmtree(place)
    ensemble.save(place)
    return place


def _in_words(result: dict[str, Any]) -> str:
    lines = [result["verdict"]]
    if len(result["front"]) > 1:
        lines.append(f"{len(result['front'])} trials and lengths lie on the front of both objectives: see the page.")
    if result["n_left"]:
        lines.append(f"{result['n_left']} trials are left: give the same command again.")
    if result["report"] is not None:
        lines.append(f"The page is {result['report']}.")
    if "model" in result:
        lines.append(
            f"The ensemble, trained for {result['n_steps']} steps on all labelled rows, is in {result['model']}."
        )
    return "\n".join(lines)

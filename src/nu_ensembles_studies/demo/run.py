"""The demo: 50 labelled and 800 unlabelled handwritten digits, standard ensembles and nu-ensembles.

Every seed is another split. One out-of-fold search over beta and steps serves all rows of a seed: its line beta = 0
stops the early-stopped standard ensemble and gives the temperature, its choice is nu (auto). All ensembles of a
seed share their initialisations and batches.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from pathlib import Path
from threading import Event

import numpy as np

from nu_ensembles import storage
from nu_ensembles.checks import check_whole
from nu_ensembles.datasets import load_digits, split
from nu_ensembles.engine.fast.threads import side_by_side
from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.metrics import evaluate
from nu_ensembles.training import environment
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.deployment import DeploymentAct, run_act
from nu_ensembles_studies.demo.result import Choice, DemoResult, DemoSettings, Grid
from nu_ensembles_studies.measure.auto_and_standard import AutoAndStandard
from nu_ensembles_studies.results.intervals import METRICS

REFERENCE = "standard_early"
# The second act's splits have seeds of their own, so many above those of the first.
DEPLOYED_SEEDS = 100
# Seeds below this one had a part in setting the demo up.
FIRST_SEED = 100


def row_titles(fixed_beta: float) -> dict[str, str]:
    """Key and title of every row, in the order in which they are shown."""
    return {
        "single": "single network",
        "standard_last": "standard, last epoch",
        "standard_early": "standard, early-stopped",
        "standard_temperature": "standard + temperature",
        "nu_fixed": f"ν, β {fixed_beta:g}, last epoch",
        "nu_auto": "ν, auto",
    }


def run_demo(
    n_seeds: int = 5,
    seed: int = FIRST_SEED,
    out: str | Path | None = None,
    verbose: int = 1,
    *,
    settings: DemoSettings | None = None,
    command: str | None = None,
) -> DemoResult:
    """Trains and scores every row on every seed.

    Args:
      n_seeds: splits, each with its own initialisations.
      seed: of the first split; the others follow it.
      out: a new folder for `results.json`, `predictions.safetensors` and `report.html`; None writes nothing.
      verbose: 1 shows progress on standard error if that is a terminal.
      settings: another setting than the demo's own.
      command: what the report names as the command that made it.
    """
    check_whole(n_seeds, "n_seeds")
    if out is not None:
        storage.refuse_existing(out)
    settings = settings or DemoSettings()
    started = time.perf_counter()
    pixels, labels = load_digits()
    seeds = tuple(range(seed, seed + n_seeds))
    splits: list[_Split] = []

    def same_place(stopped: Event) -> None:
        for number, each in enumerate(seeds, 1):
            if stopped.is_set():
                return
            splits.append(_one_split(pixels / 16, labels, each, settings, verbose))
            if verbose and sys.stderr.isatty():
                choice = splits[-1].choice
                print(f"split {number} of {n_seeds}: β = {choice.beta:g}, {choice.n_steps} steps", file=sys.stderr)

    def elsewhere(stopped: Event) -> DeploymentAct:
        how = settings.deployed_members, settings.deployed_passes, settings.learning_rate
        return run_act(tuple(each + DEPLOYED_SEEDS for each in seeds[: settings.n_deployed]), *how, stopped)

    # Networks this small leave one core of two idle: 97 s one act after the other, results/demo.json side by side.
    acts = [elsewhere, same_place] if settings.n_deployed else [same_place]
    act = side_by_side(acts)[0]
    titles = row_titles(settings.fixed_beta)
    scores = {
        metric.key: np.array([[each.scores[row][metric.key] for each in splits] for row in titles])
        for metric in METRICS
    }
    result = DemoResult(
        settings=settings,
        comparison=Comparison(titles, seeds, scores, REFERENCE),
        choices=tuple(each.choice for each in splits),
        environment=environment(),
        command=command or f"nu_ensembles_studies.demo.run.run_demo(n_seeds={n_seeds}, seed={seed})",
        seconds=time.perf_counter() - started,
        probabilities=np.stack([np.stack([each.probabilities[row] for row in titles]) for each in splits]),
        labels=np.stack([each.labels for each in splits]),
        deployment=act,
    )
    if out is not None:
        result.save(out)
    return result


@dataclasses.dataclass(frozen=True, eq=False)
class _Split:
    """One seed: row -> scores, row -> mean probabilities `[N, C]` on the test rows, their labels `[N]`."""

    scores: dict[str, dict[str, float]]
    probabilities: dict[str, np.ndarray]
    labels: np.ndarray
    choice: Choice


def _one_split(x: np.ndarray, y: np.ndarray, seed: int, settings: DemoSettings, verbose: int) -> _Split:
    sizes = {"train": settings.n_labels, "unlabeled": settings.n_unlabeled, "test": None}
    parts = split(len(x), sizes, seed, stratify=y)
    train, unlabeled, test = (x[rows] for rows in parts.values())
    labels = y[parts["test"]]
    auto = NuEnsembleClassifier(
        settings.n_members,
        model_options={"hidden": settings.hidden},
        # So many passes last `last_step` steps, rounded up to whole ones.
        max_iter=math.ceil(settings.last_step / math.ceil(settings.n_labels / settings.batch_size)),
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        standardize=False,
        random_state=seed,
        verbose=verbose,
    )
    compared = AutoAndStandard(auto, train, y[parts["train"]], unlabeled, test)
    last = compared.trained(0.0, settings.last_step)
    members = {
        "single": last[:1],
        "standard_last": last,
        "standard_early": compared.early_stopped,
        "standard_temperature": compared.early_temperature,
        "nu_fixed": compared.trained(settings.fixed_beta, settings.last_step),
        "nu_auto": compared.chosen,
    }
    scores = {row: evaluate(each, labels) for row, each in members.items()}
    # The mean is scaled, the members vote as before: their mutual information does not change.
    scores["standard_temperature"]["mutual_information"] = scores["standard_early"]["mutual_information"]
    search = compared.search
    choice = Choice(
        seed=seed,
        beta=auto.beta_,
        n_steps=auto.n_steps_,
        standard_steps=search.standard_steps,
        temperature=compared.temperature,
        verdict=auto.verdict_,
        grid=Grid.of(search),
    )
    means = {row: each.mean(axis=0, dtype=np.float64).astype(np.float32) for row, each in members.items()}
    return _Split(scores, means, labels, choice)

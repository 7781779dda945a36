"""What the demo measured: scores by row and seed, what was chosen on each split, and the predictions.

A result folder holds `results.json` (everything but the predictions), `predictions.safetensors` and
`report.html`; the first two are enough to draw the page again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import array_of, parsed, unfit
from nu_ensembles.errors import InputError
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.deployment import DeploymentAct
from nu_ensembles_studies.demo.forms import ActForm, DemoForm
from nu_ensembles_studies.demo.verdict import verdict
from nu_ensembles_studies.results.json_numbers import nan_for_none, none_for_nan

if TYPE_CHECKING:
    from nu_ensembles.tuning import SearchResult

# Shown wherever the demo's numbers are, since it bears on two of its rows.
SETTING_PICKED = (
    "How this setting was picked: a first one (300 steps, fixed β = 0.003) showed no clear difference between the last "
    "epoch and the others. The length and the fixed β here were then picked by test scores on 20 other splits of the "
    "same images (seeds 0 to 19, results/digits-beta-map.json), so the two “last epoch” rows are an illustration, not "
    "independent evidence. Early stopping, temperature and ν (auto) saw no test score."
)
DEPLOYED = ("deployed_probabilities", "deployed_labels")
RESULTS, PREDICTIONS, REPORT = "results.json", "predictions.safetensors", "report.html"


@dataclasses.dataclass(frozen=True)
class DemoSettings:
    """The demo's setting. Inputs are grey levels between 0 and 1; everything that is left over tests.

    last_step: where the rows "last epoch" stop, and the longest training that a search may choose.
    fixed_beta: of the row that chooses nothing; `SETTING_PICKED` says how it and last_step came about.
    n_deployed: splits of the second act, at most those of the first; 0 leaves it out.
    deployed_members: of its ensembles.
    deployed_passes: over its labelled rows, at most.
    """

    n_labels: int = 50
    n_unlabeled: int = 800
    n_members: int = 10
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 3e-3
    batch_size: int = 32
    last_step: int = 600
    fixed_beta: float = 3e-4
    n_deployed: int = 3
    deployed_members: int = 5
    deployed_passes: int = 30


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """A search over beta and steps, without its per-sample losses.

    betas: `[P]`; steps: int `[S]`; nll: out of fold `[P, S]`, nan where a candidate had been dropped;
    chosen, best: (beta, steps) as positions in these.
    """

    betas: np.ndarray
    steps: np.ndarray
    nll: np.ndarray
    chosen: tuple[int, int]
    best: tuple[int, int]

    @classmethod
    def of(cls, search: SearchResult) -> Grid:
        return cls(search.betas, search.steps, search.nll, _pair(search.chosen), _pair(search.best))

    def to_dict(self) -> dict[str, Any]:
        return {
            "betas": self.betas.tolist(),
            "steps": self.steps.tolist(),
            "nll": [[none_for_nan(value) for value in row] for row in self.nll.tolist()],
            "chosen": list(self.chosen),
            "best": list(self.best),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Grid:
        nll = np.array([[nan_for_none(value) for value in row] for row in entry["nll"]])
        betas, steps = np.array(entry["betas"]), np.array(entry["steps"])
        return cls(betas, steps, nll, _pair(entry["chosen"]), _pair(entry["best"]))


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """What the search of one seed decided.

    Attributes:
      seed: of the split, the initialisations and the folds.
      beta, n_steps: of nu (auto).
      standard_steps: where the early-stopped standard ensemble stops.
      temperature: of that ensemble, out of fold.
      verdict: the estimator's sentence about its choice; its numbers are out-of-fold ones.
      grid: what was tried.
    """

    seed: int
    beta: float
    n_steps: int
    standard_steps: int
    temperature: float
    verdict: str
    grid: Grid

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)} | {
            "grid": self.grid.to_dict()
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Choice:
        return cls(**{**entry, "grid": Grid.from_dict(entry["grid"])})


@dataclasses.dataclass(frozen=True, eq=False)
class DemoResult:
    """Everything that the demo measured.

    Attributes:
      settings: what was trained.
      comparison: test scores of every row on every seed.
      choices: one per seed.
      environment: machine and versions.
      command: how to run it again.
      seconds: wall-clock time, compilation included.
      probabilities: float32 `[S, rows, N, C]`, the mean over members on the test rows.
      labels: int `[S, N]`, of the test rows.
      deployment: the second act, None where it was left out.
    """

    settings: DemoSettings
    comparison: Comparison
    choices: tuple[Choice, ...]
    environment: Mapping[str, Any]
    command: str
    seconds: float
    probabilities: np.ndarray = dataclasses.field(repr=False)
    labels: np.ndarray = dataclasses.field(repr=False)
    deployment: DeploymentAct | None = None

    @property
    def verdict(self) -> list[str]:
        """What nu gains, in plain sentences: where rows differ first."""
        of_deployment = [] if self.deployment is None else [self.deployment.sentence]
        betas = [choice.beta for choice in self.choices]
        return [*of_deployment, *verdict(self.comparison, betas, self.settings.fixed_beta)]

    def of_row(self, row: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Test probabilities `[N, C]` of a row and their labels `[N]`, by the seed itself."""
        at = self.comparison.seeds.index(seed)
        return self.probabilities[at, list(self.comparison.rows).index(row)], self.labels[at]

    def pooled(self, row: str) -> tuple[np.ndarray, np.ndarray]:
        """Test probabilities `[S·N, C]` of a row over all seeds, and their labels."""
        of_row = self.probabilities[:, list(self.comparison.rows).index(row)]
        return of_row.reshape(-1, of_row.shape[-1]), self.labels.reshape(-1)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the predictions, as plain values that JSON can hold."""
        return {
            "study": "demo",
            "verdict": self.verdict,
            "settings": {**dataclasses.asdict(self.settings), "hidden": list(self.settings.hidden)},
            "comparison": self.comparison.to_dict(),
            "choices": [choice.to_dict() for choice in self.choices],
            "environment": dict(self.environment),
            "command": self.command,
            "seconds": self.seconds,
            "deployment": None if self.deployment is None else self.deployment.to_dict(),
        }

    @classmethod
    def from_dict(
        cls,
        entry: Mapping[str, Any],
        probabilities: np.ndarray,
        labels: np.ndarray,
        deployed: tuple[np.ndarray, np.ndarray] = (np.empty(0), np.empty(0)),
    ) -> DemoResult:
        """The result that `to_dict` was called on; the sentences are made anew.

        Args:
          deployed: probabilities and labels of the second act, where there was one.
        """
        act = entry.get("deployment")
        settings = {**entry["settings"], "hidden": tuple(entry["settings"]["hidden"])}
        return cls(
            DemoSettings(**settings),
            Comparison.from_dict(entry["comparison"]),
            tuple(Choice.from_dict(choice) for choice in entry["choices"]),
            entry["environment"],
            entry["command"],
            entry["seconds"],
            probabilities,
            labels,
            None if act is None else DeploymentAct.from_dict(act, *deployed),
        )

    def save(self, folder: str | Path) -> None:
        """Writes the numbers, the predictions and the page into a new folder, which appears whole or not at all."""
        # The page needs matplotlib and Jinja2, which a result does not.
        from nu_ensembles.report.page import write_page
        from nu_ensembles_studies.demo.page import demo_page

        with storage.new_folder(folder) as inside:
            arrays = {"probabilities": self.probabilities, "labels": self.labels}
            if self.deployment is not None:
                own = self.deployment.probabilities, self.deployment.labels
                arrays |= dict(zip(DEPLOYED, own, strict=True))
            checksum = storage.save_arrays(inside / PREDICTIONS, arrays)
            storage.write_stamped_json(inside / RESULTS, {**self.to_dict(), "predictions_sha256": checksum})
            write_page(inside / REPORT, demo_page(self))

    @classmethod
    def load(cls, folder: str | Path) -> DemoResult:
        """Reads what `save` wrote."""
        folder = Path(folder)
        entry, _ = storage.read_stamped_json(folder / RESULTS, "The results of a demo")
        if not isinstance(entry, dict) or entry.get("study") != "demo":
            raise InputError(f"{folder} holds no results of a demo: give a folder that the demo wrote.")
        found = parsed(DemoForm, entry, f"The results of a demo {folder / RESULTS}")
        arrays = storage.load_arrays(folder / PREDICTIONS, found.predictions_sha256)
        where = f"The predictions {folder / PREDICTIONS}"
        own = _predictions(arrays, ("probabilities", "labels"), found, where)
        if found.deployment is None:
            return cls.from_dict(dataclasses.asdict(found), *own)
        deployed = _predictions(arrays, DEPLOYED, found.deployment, where)
        return cls.from_dict(dataclasses.asdict(found), *own, deployed)


def _predictions(
    arrays: Mapping[str, np.ndarray], names: tuple[str, str], of: DemoForm | ActForm, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities `[S, R, N, C]` of all seeds and rows, and labels `[S, N]`."""
    n_seeds, n_rows = len(of.comparison.seeds), len(of.comparison.rows)
    n, n_classes = arrays.get(names[0], np.zeros((0, 0, 0, 0))).shape[-2:]
    probabilities = array_of(arrays, names[0], (n_seeds, n_rows, n, n_classes), "f", where)
    labels = array_of(arrays, names[1], (n_seeds, n), "i", where)
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        raise unfit(f"{where}: {names[1]!r}", f"numbers of {n_classes} classes", None)
    return probabilities, labels


def _pair(values: Any) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)

"""Beta: every metric over beta and the length of training, at the published learning rate.

The paper says that beta is easy to tune. Measured on every seed: all metrics of beta from 0 (the standard ensemble) to
1 at every length of the published grids, which are points on one trajectory for each beta.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.studies import published
from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import FINE_BETAS, epochs_grid, fixed_row
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

if TYPE_CHECKING:
    from nu_ensembles.studies.results import Results

BETAS = tuple(sorted({0.0, *FINE_BETAS, *published.BETAS, 0.3}))


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for dataset in options.datasets:
        for model in options.models:
            for n in options.n or (data_set(dataset).n_train,):
                nu = published.setting(dataset, model, "nu", n) or Setting(1e-3, 100)
                for beta in BETAS:
                    for epochs in epochs_grid(dataset, model):
                        found.append(_row(options, dataset, n, model, beta, Setting(nu.learning_rate, epochs)))
    return found


def _row(options: StudyOptions, dataset: str, n: int, model: str, beta: float, setting: Setting) -> Row:
    method = "nu" if beta else "standard"
    chosen = Setting(setting.learning_rate, setting.epochs, (("beta", beta),) if beta else ())
    title = f"β = {beta:g}, {setting.epochs} epochs" if beta else f"standard, {setting.epochs} epochs"
    settings = (("beta", beta), ("epochs", setting.epochs))
    return fixed_row(options, dataset, n, model, method, chosen, title=title, settings=settings)


@dataclasses.dataclass(frozen=True, eq=False)
class Landscape:
    """A score over beta and epochs: means `[beta, epochs]` over the seeds on which all betas that are there trained.

    A beta with more seeds than another is not compared by them: seeds differ by more than neighbouring betas do.
    """

    betas: list[float]
    lengths: list[int]
    means: np.ndarray
    n_seeds: int

    @property
    def seeds(self) -> str:
        """Over how many seeds, in words."""
        return "one seed" if self.n_seeds == 1 else f"mean over {self.n_seeds} seeds"


def landscape(results: Results, place: tuple[str, int, str, str], metric: str) -> Landscape:
    """The landscape of a place; all nan where nothing was trained."""
    at = {(row.setting("beta"), row.setting("epochs")): row for row in results.rows if row.place == place}
    betas, lengths = (sorted({key[i] for key in at}) for i in range(2))
    values = np.array([[results.values(at[beta, epochs], metric) for epochs in lengths] for beta in betas])
    trained = np.all(~np.isnan(values), axis=1)  # [beta, seed]
    shared = np.all(trained[np.any(trained, axis=1)], axis=0)
    means = np.full(values.shape[:2], np.nan)
    if np.any(shared):
        means = values[:, :, shared].mean(axis=2)
    return Landscape(betas, lengths, means, int(np.sum(shared)))


BETA_SENSITIVITY = Study(
    name="beta-sensitivity",
    title="How much depends on β?",
    question="How do accuracy and calibration change with β and the length of training?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=("beta_maps", "beta_ranges"),
    slim=True,
)

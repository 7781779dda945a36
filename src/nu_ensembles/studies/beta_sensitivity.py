"""Beta: every metric over beta and the length of training, at the published learning rate.

The paper says that beta is easy to tune. Measured on every seed: all metrics of beta from 0 (the standard ensemble) to
1 at every length of the published grids, which are points on one trajectory for each beta.
"""

from __future__ import annotations

from nu_ensembles.studies import published
from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import FINE_BETAS, epochs_grid, fixed_row
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

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


BETA_SENSITIVITY = Study(
    name="beta-sensitivity",
    title="How much depends on β?",
    question="How do accuracy and calibration change with β and the length of training?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=("beta_maps", "beta_ranges"),
    slim=True,
)

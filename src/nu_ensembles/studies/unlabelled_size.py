"""Unlabelled size: calibration from no unlabelled row to 40,000, at fixed steps and at fixed visits per row.

At fixed steps every member takes as many unlabelled rows a step as ever, so more rows are visited less often each; at
fixed visits the unlabelled batch grows with their number. Measured on every seed: all metrics, at nu's published
learning rate, epochs and beta. No unlabelled row is the standard ensemble.
"""

from __future__ import annotations

from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import fixed_row, settings_of_protocol
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

SIZES = (625, 1250, 2500, 5000, 10_000, 20_000, 40_000)
DIGITS_SIZES = (100, 200, 400, 800)
FIXED_STEPS, FIXED_VISITS = "fixed steps", "fixed visits"


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for dataset in options.datasets:
        about = data_set(dataset)
        for model in options.models:
            for n in options.n or (about.n_train,):
                (nu,) = settings_of_protocol("matched", dataset, model, "nu", n)
                standard = Setting(nu.learning_rate, nu.epochs)
                for way in (FIXED_STEPS, FIXED_VISITS):
                    where = options, dataset, n, model
                    # The standard ensemble keeps the usual unlabelled rows for what is measured on them.
                    row = fixed_row(*where, "standard", standard, title="standard", protocol=way, settings=[("m", 0)])
                    found.append(row)
                    for m in DIGITS_SIZES if dataset == "digits" else SIZES:
                        batch = None if way == FIXED_STEPS else max(1, 32 * m // about.n_unlabeled)
                        others = {"n_unlabeled": m, "unlabeled_batch_size": batch}
                        settings = [("m", m)]
                        title = f"ν, m = {m}"
                        row = fixed_row(*where, "nu", nu, title=title, protocol=way, settings=settings, **others)
                        found.append(row)
    return found


UNLABELLED_SIZE = Study(
    name="unlabelled-size",
    title="How many unlabelled rows?",
    question="How do ν-ensembles change with the number of unlabelled rows?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=("unlabeled_curves", "scores", "unlabeled"),
)

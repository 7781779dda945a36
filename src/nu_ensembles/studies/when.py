"""When: a map of what nu-ensembles gain over the number of labelled (n) and unlabelled (m) rows.

The paper leaves open which sizes profit. Measured on every seed: the difference of nu and standard in NLL and ECE at
every n and m, both at nu's published learning rate, epochs and beta.
"""

from __future__ import annotations

from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import fixed_row, settings_of_protocol
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

LABELLED = (250, 500, 1000, 2000, 4000, 10_000)
UNLABELLED = (1250, 5000, 20_000)
DIGITS_LABELLED = (25, 50, 100, 200, 400)
DIGITS_UNLABELLED = (100, 400, 800)


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for dataset in options.datasets:
        digits = dataset == "digits"
        for model in options.models:
            for n in options.n or (DIGITS_LABELLED if digits else LABELLED):
                (nu,) = settings_of_protocol("matched", dataset, model, "nu", n)
                where = options, dataset, n, model
                standard = Setting(nu.learning_rate, nu.epochs)
                found.append(fixed_row(*where, "standard", standard, title="standard", protocol="matched"))
                for m in DIGITS_UNLABELLED if digits else UNLABELLED:
                    title, settings = f"ν, m = {m}", [("m", m)]
                    row = fixed_row(*where, "nu", nu, title=title, protocol="matched", settings=settings, n_unlabeled=m)
                    found.append(row)
    return found


WHEN = Study(
    name="when",
    title="When do ν-ensembles help?",
    question="For which numbers of labelled and unlabelled rows do ν-ensembles gain?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=("gain_maps", "scores"),
)

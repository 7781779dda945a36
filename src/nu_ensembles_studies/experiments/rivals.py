"""Rivals: ν with its defaults against what people pick instead, on small tables with few labels.

A cell is one method on one split: some labelled rows, at most 1,000 unlabelled and 1,000 test rows, all drawn from the
seed. With the same networks it is also measured what a calibrator ("auto") and a companion add. Seeds 0 to 4 had a part
in decisions; what a default is said to do is shown on later ones.
"""

from __future__ import annotations

from typing import Any

from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import make_row, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.rivals import budgets_section, leaders_section, tables_section, targets_section

BUDGETS = (50, 100, 300)
# Of tables that have hardly twice as many rows as the largest number of labels, or fewer.
FEWER = {"iris": (50,), "wine": (50,), "scat": (50,), "penguins": (50, 100), "breast_cancer": (50, 100)}
TABLES = (
    *("digits", "breast_cancer", "wine", "iris", "vehicle", "letter", "dna", "pima", "spam", "german", "cellseg"),
    *("cifar10_hog", "income", "soybean", "scat", "penguins"),
)
ALWAYS = (
    *("nu", "standard", "tempered_forest", "random_forest", "logistic_regression", "gaussian_process", "svm", "mlp"),
    *("gradient_boosting", "self_training", "label_spreading"),
)
WHERE_INSTALLED = ("lightgbm", "catboost", "tabpfn", "tabicl")
SIZES: dict[str, Any] = {"n_validation": 0, "n_unlabeled": 1000, "n_test": 1000}


def rows(options: StudyOptions) -> list[Row]:
    from nu_ensembles_studies.measure.rivals import RIVALS

    found = []
    for place in places(options, usual_sizes=lambda name: FEWER.get(name, BUDGETS)):
        few = FEWER.get(place.dataset, BUDGETS)
        if place.n_train not in few and set(few) & set(options.n):
            continue  # of several numbers of labels a small table takes those that it has rows for
        for name in options.methods:
            title, how = RIVALS[name].title, {"kind": "rival", "augment": False, "split": "random", **SIZES}
            found.append(make_row(options, place, name, [Setting(1e-3, 1)], title=title, **how))
    return found


RIVALS_STUDY = Study(
    name="rivals",
    title="Against what you would pick instead",
    question="On a small table with 50, 100 or 300 labels: is ν with its defaults better than what people pick?",
    rows=rows,
    defaults={"datasets": TABLES, "models": ("mlp",), "methods": ALWAYS},
    sections=(leaders_section, targets_section, budgets_section, tables_section),
    notes=(
        "Every method gets the same numbers: text one-hot, gaps filled and marked, fitted on all rows without labels. "
        "Columns are standardised where a method compares distances or adds columns up. Nothing is tuned by hand.",
        "Of every class at least two rows are labelled; classes of four rows or fewer are left out of the table.",
        "No probability counts as less than 0.000001, which spares forests and label spreading an infinite NLL.",
        "Processor seconds are those of fitting and predicting, all threads and compilation included.",
        "ν with a calibrator or a companion has the networks of ν alone: made from its search, not trained anew.",
        "Seeds 0 to 4 had a part in decisions about calibrators and companions; later seeds confirm.",
    ),
    methods=(*ALWAYS, *WHERE_INSTALLED),
)

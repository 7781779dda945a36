"""Methods: every way to train that the package has, on the digits, with the same budget and seeds.

Ten members (or what the method makes of them), the same number of steps, 64 images a member a step: 64 labelled ones,
or 32 labelled and 32 unlabelled where the method uses those. Measured on every seed: all metrics on the test rows,
before and after temperature scaling fitted on the validation rows, and the time. *fixed*: one strength, 400 steps.
*selected*: strength and number of steps with the lowest validation NLL.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import TITLES, check_methods, check_selectable, fixed_row, make_cell
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Candidate, Row, Study

N_TRAIN = 128
STEPS = (50, 100, 200, 400, 800, 1600)
FIXED_STEPS = 400
RATE = 1e-3
IMAGES_A_STEP = 64
# Up to three strengths where a method has one; *fixed* takes the one in FIXED_STRENGTHS.
STRENGTHS: dict[str, tuple[tuple[str, Any], ...]] = {
    "nu": (("beta", 1e-3), ("beta", 3e-3), ("beta", 1e-2)),
    "confidence_penalty": (("beta", 1e-3), ("beta", 3e-3), ("beta", 1e-2)),
    "label_smoothing": (("epsilon", 0.005), ("epsilon", 0.02), ("epsilon", 0.1)),
    "mixup": (("alpha", 0.02), ("alpha", 0.05), ("alpha", 0.1)),
    "agree_to_disagree": (("alpha", 1e-5), ("alpha", 1e-4), ("alpha", 1e-3)),
    "dice": (("alpha", 0.1), ("alpha", 0.3), ("alpha", 1.0)),
    "pac2b": (("beta", 0.5), ("beta", 1.0)),
    "pac2": (("beta", 0.5), ("beta", 1.0)),
}
FIXED_STRENGTHS: dict[str, tuple[str, Any]] = {
    "nu": ("beta", 3e-3),
    "confidence_penalty": ("beta", 3e-3),
    "label_smoothing": ("epsilon", 0.1),
    "mixup": ("alpha", 0.1),
    "agree_to_disagree": ("alpha", 1e-4),
    "dice": ("alpha", 0.3),
    "pac2": ("beta", 1.0),
    "pac2b": ("beta", 1.0),
}
FIXED, SELECTED, TIMED = "fixed", "selected", "timed"


def rows(options: StudyOptions) -> list[Row]:
    from nu_ensembles.methods import METHODS

    names = options.methods or tuple(METHODS)
    check_methods(names)
    found = []
    for dataset in options.datasets:
        check_selectable(dataset)
        for model in options.models:
            for n in options.n or (N_TRAIN,):
                found += [_row(options, dataset, n, model, method, FIXED) for method in names]
                found += [_row(options, dataset, n, model, method, SELECTED) for method in names]
                found += [_timed_row(options, dataset, n, model, method) for method in names]
    return found


def _row(options: StudyOptions, dataset: str, n_train: int, model: str, method: str, protocol: str) -> Row:
    batch = _batch_size(method)
    if protocol == SELECTED:
        strengths = [(strength,) for strength in STRENGTHS.get(method, ())] or [()]
    else:
        strengths = [(FIXED_STRENGTHS[method],)] if method in FIXED_STRENGTHS else [()]
    lengths = STEPS if protocol == SELECTED else (FIXED_STEPS,)
    settings = [
        Setting(RATE, _epochs(steps, n_train, batch), strength)
        for strength in strengths
        for steps in lengths
        if steps * batch >= n_train
    ]
    candidates: list[tuple[Candidate, ...]] = []
    for seed in options.seed_list:
        cells = [
            make_cell(options, dataset, n_train, model, method, each, seed, batch_size=batch, n_test=None)
            for each in settings
        ]
        candidates.append(tuple((cell, cell.epochs[0]) for cell in cells))
    return Row(dataset, n_train, model, method, TITLES.get(method, method), protocol, tuple(candidates))


def _timed_row(options: StudyOptions, dataset: str, n_train: int, model: str, method: str) -> Row:
    """One cell that is only timed, on the first seed."""
    batch = _batch_size(method)
    once = dataclasses.replace(options, seeds=1)
    setting = Setting(RATE, _epochs(FIXED_STEPS, n_train, batch))
    title = TITLES.get(method, method)
    others = {"kind": "cost", "batch_size": batch, "n_test": None}
    return fixed_row(once, dataset, n_train, model, method, setting, title=title, protocol=TIMED, **others)


def _epochs(steps: int, n_train: int, batch: int) -> int:
    """As many epochs as have so many steps, or nearly; what is left of a batch is no step (see `steps_in`)."""
    return max(1, round(steps / max(1, n_train // batch)))


def _batch_size(method: str) -> int:
    from nu_ensembles.methods import build

    return IMAGES_A_STEP // 2 if build(method).uses_unlabeled else IMAGES_A_STEP


METHODS_STUDY = Study(
    name="methods",
    title="Which ensemble should I use?",
    question="All ways to train that the package has, on handwritten digits with the same budget: which is best?",
    rows=rows,
    defaults={"datasets": ("digits",), "models": ("mlp",), "rule": "nll"},
    sections=("method_table", "scores", "temperature", "reliability"),
    notes=(
        "Hyper-deep ensembles and self-training train more networks than they keep; single networks, MC dropout and "
        "SWAG train one. The time is relative to the standard ensemble, for the same steps on this machine.",
        "Hyper-deep ensembles choose their members on the validation rows, to which temperatures are fitted, too.",
    ),
)

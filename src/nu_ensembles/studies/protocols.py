"""How a row's hyper-parameters come about, so that what a method does can be told from how it was tuned.

published: those of the paper's training scripts, in which standard ensembles train longer or shorter than nu's.
matched: nu's published learning rate and epochs for every method.
selected: every method picks rate, length and its own strength on the validation rows, seed by seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles.studies import published
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.networks import activation_dtype, check_model
from nu_ensembles.studies.options import MEMBERS, StudyOptions
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Candidate, Row

TITLES = {
    "standard": "standard",
    "nu": "ν",
    "agree_to_disagree": "Agree to Disagree",
    "pac2": "PAC²",
    "pac2b": "PAC²B",
    "dice": "DICE",
    "label_smoothing": "label smoothing",
    "mixup": "mixup",
    "confidence_penalty": "confidence penalty",
    "hyper_deep": "hyper-deep",
    "self_training": "self-training",
    "swag": "SWAG",
    "mc_dropout": "MC dropout",
    "single": "single network",
}
FINE_BETAS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# Early lengths for the digits and for early stopping; the published grids stand in `published.py`.
DIGITS_EPOCHS = (10, 20, 50, 80, 100, 150, 200)
DIGITS_BETAS = (0.05, 0.01)


def title_of(method: str, options: Sequence[tuple[str, Any]] = ()) -> str:
    """The method for readers; "PAC²" as the paper's code had it is what the paper calls Masegosa."""
    as_published = ("variant", "as_published") in options
    if method == "pac2" and as_published:
        return "Masegosa, as published"
    return TITLES.get(method, method) + (", as published" if as_published else "")


def settings_of_protocol(
    protocol: str, dataset: str, model: str, method: str, n_train: int, fine_betas: bool = False
) -> list[Setting]:
    """The candidates of a protocol: one, or under *selected* the grid. None at all where nothing was published."""
    stated = published.setting(dataset, model, method, n_train)
    if protocol == "published":
        return [] if stated is None else [stated]
    nu = published.setting(dataset, model, "nu", n_train) or Setting(1e-3, 100, (("beta", 0.01),))
    if protocol == "matched":
        # The losses as their authors wrote them, not as the paper's comparison had them.
        options = tuple(o for o in (stated.options if stated else ()) if o[0] != "variant")
        return [Setting(nu.learning_rate, nu.epochs, nu.options if method == "nu" else options)]
    return _grid(dataset, model, method, fine_betas)


def epochs_grid(dataset: str, model: str) -> tuple[int, ...]:
    """All lengths that were searched for any method, so that every method may stop where it is best."""
    if dataset == "digits":
        return DIGITS_EPOCHS
    both = {*published.EPOCHS.get(model, published.EPOCHS["wrn-22-4"])}
    both |= {*published.STANDARD_EPOCHS.get(model, published.STANDARD_EPOCHS["wrn-22-4"])}
    return tuple(sorted(both))


def _grid(dataset: str, model: str, method: str, fine_betas: bool) -> list[Setting]:
    betas = DIGITS_BETAS if dataset == "digits" else published.BETAS
    strengths: Mapping[str, Sequence[tuple[tuple[str, float], ...]]] = {
        "nu": [(("beta", b),) for b in sorted({*betas, *(FINE_BETAS if fine_betas or dataset == "digits" else ())})],
        "agree_to_disagree": [(("alpha", alpha),) for alpha in published.ALPHAS],
    }
    return [
        Setting(rate, epochs, options)
        for rate in published.RATES
        for options in strengths.get(method, [()])
        for epochs in epochs_grid(dataset, model)
    ]


def make_cell(
    options: StudyOptions,
    dataset: str,
    n_train: int | None,
    model: str,
    method: str,
    setting: Setting,
    seed: int,
    **others: Any,
) -> Cell:
    """The cell of a setting: the data set's usual sizes and the paper's batches, unless `others` say otherwise."""
    about = data_set(dataset)
    check_model(model)
    cell = Cell(
        dataset=dataset,
        n_train=n_train or about.n_train,
        model=model,
        method=method,
        seed=seed,
        epochs=(setting.epochs,),
        options=setting.options,
        learning_rate=setting.learning_rate,
        n_unlabeled=about.n_unlabeled,
        n_validation=about.n_validation,
        n_test=about.n_test,
        split=about.split,
        augment=about.augment,
        n_members=options.members or MEMBERS,
        dtype=activation_dtype(model, options.dtype, options.backend),
    )
    cell = dataclasses.replace(cell, **others)
    return _in_small(cell) if options.quick else cell


def _in_small(cell: Cell) -> Cell:
    """A cell that runs in seconds, to see that a study works."""
    few = {"n_unlabeled": min(cell.n_unlabeled, 64), "n_validation": min(cell.n_validation, 64), "n_test": 64}
    epochs = tuple(-(-epoch // 50) for epoch in cell.epochs)
    n_train, n_members = min(cell.n_train, 64), min(cell.n_members, 3)
    return dataclasses.replace(cell, **few, n_train=n_train, n_members=n_members, epochs=epochs)


def protocol_row(
    options: StudyOptions, protocol: str, dataset: str, n_train: int | None, model: str, method: str, **others: Any
) -> Row | None:
    """A row of one method under one protocol on all seeds; None where the protocol has nothing for it."""
    n_rows = n_train or data_set(dataset).n_train
    if protocol == "selected":
        check_selectable(dataset)
    settings = settings_of_protocol(protocol, dataset, model, method, n_rows, options.fine_betas)
    if not settings:
        return None
    candidates: list[tuple[Candidate, ...]] = []
    for seed in options.seed_list:
        cells = [make_cell(options, dataset, n_train, model, method, each, seed, **others) for each in settings]
        candidates.append(tuple((cell, cell.epochs[0]) for cell in cells))
    title = title_of(method, settings[0].options)
    return Row(dataset, n_rows, model, method, title, protocol, tuple(candidates))


def protocol_rows(
    options: StudyOptions, sizes: Callable[[str], Sequence[int | None]] | None = None, **others: Any
) -> list[Row]:
    """The rows of all data sets, networks, sizes, protocols and methods that were asked for.

    Args:
      sizes: numbers of labels for a data set; by default those that were asked for, or the data set's own.
      others: fields of the cells.
    """
    check_methods(options.methods)
    found = [
        protocol_row(options, protocol, dataset, n, model, method, **others)
        for dataset in options.datasets
        for model in options.models
        for n in (sizes(dataset) if sizes is not None else options.n or (None,))
        for protocol in options.protocols
        for method in options.methods
    ]
    return [row for row in found if row is not None]


def fixed_row(
    options: StudyOptions,
    dataset: str,
    n_train: int,
    model: str,
    method: str,
    setting: Setting,
    *,
    title: str,
    protocol: str = "",
    settings: Sequence[tuple[str, Any]] = (),
    **others: Any,
) -> Row:
    """A row with one setting on all seeds; `others` are fields of its cells."""
    cells = [make_cell(options, dataset, n_train, model, method, setting, seed, **others) for seed in options.seed_list]
    candidates = tuple(((cell, cell.epochs[-1]),) for cell in cells)
    return Row(dataset, n_train, model, method, title, protocol, candidates, tuple(settings))


def check_names(options: StudyOptions) -> None:
    """Refuses data sets, networks and methods that there are not, whether or not the study looks at them."""
    for dataset in options.datasets:
        data_set(dataset)
    for model in options.models:
        check_model(model)
    if options.methods:
        check_methods(options.methods)


def check_selectable(dataset: str) -> None:
    """Refuses a data set without rows to select on."""
    about = data_set(dataset)
    if not about.n_validation:
        raise InputError(
            f"{about.title} has no validation rows, so nothing can be selected on them: use another data set, or "
            "--protocols matched."
        )


def check_methods(names: Sequence[str]) -> None:
    """Refuses a method that the package does not have, before anything is trained."""
    from nu_ensembles.errors import unknown_name
    from nu_ensembles.methods import METHODS

    for name in names:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if not names:
        raise InputError("Name at least one method.")

"""How a row's hyper-parameters come about, so that what a method does can be told from how it was tuned.

published: those of the paper's training scripts, in which standard ensembles train longer or shorter than nu's.
matched: nu's published learning rate and epochs for every method.
selected: every method picks rate, length and its own strength on the validation rows, seed by seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles_studies.declare import published
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.data_sets import data_set
from nu_ensembles_studies.declare.networks import activation_dtype, check_model
from nu_ensembles_studies.declare.options import MEMBERS, PROTOCOLS, StudyOptions
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row

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
    "repulsive": "repulsive",
    "feature_flow": "feature-space flow",
    "laplace": "Laplace",
    "cyclical_sgmcmc": "cyclical SG-MCMC",
    "cold_posterior": "cold posterior",
    "hmc": "HMC",
    "transformations": "transformations",
    "multi_symmetry": "multi-symmetry",
    "packed": "packed",
    "batch_ensemble": "BatchEnsemble",
    "sngp": "SNGP",
    "hyper_deep": "hyper-deep",
    "self_training": "self-training",
    "swag": "SWAG",
    "multi_swag": "MultiSWAG",
    "mc_dropout": "MC dropout",
    "single": "single network",
}
# What Table 1 compares, and the figures after it.
WHOLE_TABLE: dict[str, Any] = {
    "datasets": ("cifar10", "cifar100"),
    "models": ("lenet", "mlp", "wrn-22-4"),
    "methods": ("standard", "nu"),
    "protocols": ("published", "matched"),
}
FINE_BETAS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# Early lengths for the digits and for early stopping; the published grids stand in `published.py`.
DIGITS_EPOCHS = (10, 20, 50, 80, 100, 150, 200)
DIGITS_BETAS = (0.05, 0.01)
# How cautious beta = "auto" is, in paired standard errors: its own measure, and others to compare it with.
TOLERANCE, OTHER_TOLERANCES = 1.0, (0.5, 2.0)


def title_of(method: str, options: Sequence[tuple[str, Any]] = ()) -> str:
    """The method for readers; "PAC²" as the paper's code had it is what the paper calls Masegosa."""
    as_published = ("variant", "as_published") in options
    if method == "pac2" and as_published:
        return "Masegosa, as published"
    return TITLES.get(method, method) + (", as published" if as_published else "")


def settings_of_protocol(place: Place, method: str, fine_betas: bool = False) -> list[Setting]:
    """The candidates of a place's protocol: one, or under *selected* the grid. None where nothing was published."""
    stated = published.setting(place.dataset, place.model, method, place.n_train)
    if place.protocol == "published":
        return [] if stated is None else [stated]
    if place.protocol == "selected":
        return _grid(place.dataset, place.model, method, fine_betas)
    nu = nu_setting(place)
    # The losses as their authors wrote them, not as the paper's comparison had them.
    options = tuple(o for o in (stated.options if stated else ()) if o[0] != "variant")
    return [nu if method == "nu" else Setting(nu.learning_rate, nu.epochs, options)]


def nu_setting(place: Place) -> Setting:
    """nu's published learning rate, epochs and beta, or usual ones where there are none."""
    stated = published.setting(place.dataset, place.model, "nu", place.n_train)
    return stated or Setting(1e-3, 100, (("beta", 0.01),))


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
    options: StudyOptions, place: Place, method: str, setting: Setting, seed: int, **fields: Any
) -> StudyCell:
    """The cell of a setting: the data set's usual sizes and the paper's batches, unless `fields` say otherwise."""
    about = data_set(place.dataset)
    cell = StudyCell(
        dataset=place.dataset,
        n_train=place.n_train,
        model=check_model(place.model),
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
        dtype=activation_dtype(place.model, options.dtype, options.backend),
    )
    cell = dataclasses.replace(cell, **fields)
    return _in_small(cell) if options.quick else cell


def _in_small(cell: StudyCell) -> StudyCell:
    """A cell that runs in seconds, to see that a study works."""
    few = {"n_unlabeled": min(cell.n_unlabeled, 64), "n_validation": min(cell.n_validation, 64), "n_test": 64}
    epochs = tuple(-(-epoch // 50) for epoch in cell.epochs)
    n_train, n_members = min(cell.n_train, 64), min(cell.n_members, 3)
    return dataclasses.replace(cell, **few, n_train=n_train, n_members=n_members, epochs=epochs)


def make_row(
    options: StudyOptions,
    place: Place,
    method: str,
    settings: Sequence[Setting],
    *,
    title: str = "",
    varied: Sequence[tuple[str, Any]] = (),
    **fields: Any,
) -> Row:
    """A row on all seeds, with a candidate for each setting; `fields` are those of its cells."""
    candidates = []
    for seed in options.seed_list:
        cells = [make_cell(options, place, method, each, seed, **fields) for each in settings]
        candidates.append(tuple((cell, cell.epochs[-1]) for cell in cells))
    return Row(*place, method, title or title_of(method, settings[0].options), tuple(candidates), tuple(varied))


def places(
    options: StudyOptions, protocol: str = "", usual_sizes: Callable[[str], Sequence[int]] | None = None
) -> Iterator[Place]:
    """All data sets, networks and numbers of labels that were asked for.

    Args:
      usual_sizes: numbers of labels for a data set, where none were asked for; by default its own.
    """
    for dataset in options.datasets:
        about = data_set(dataset)
        usual = (about.n_train,) if usual_sizes is None else usual_sizes(dataset)
        for model in options.models:
            for n in options.n or usual:
                yield Place(dataset, n, model, protocol)


def protocol_rows(
    options: StudyOptions, usual_sizes: Callable[[str], Sequence[int]] | None = None, **fields: Any
) -> list[Row]:
    """A row for every place, protocol and method that was asked for, where the protocol has something for it.

    Args:
      fields: of the cells.
    """
    check_methods(options.methods)
    found = []
    for place in places(options, usual_sizes=usual_sizes):
        for protocol in options.protocols:
            if protocol == "selected":
                check_selectable(place.dataset)
            here = place._replace(protocol=protocol)
            for method in options.methods:
                settings = settings_of_protocol(here, method, options.fine_betas)
                if settings:
                    found.append(make_row(options, here, method, settings, **fields))
    return found


def check_names(
    options: StudyOptions, methods: Sequence[str] | None = None, protocols: Sequence[str] = PROTOCOLS
) -> None:
    """Refuses data sets, networks, methods and protocols that there are not, whether or not the study looks at them.

    Args:
      methods: the study's own; None for those of the package.
      protocols: the study's own.
    """
    for protocol in options.protocols:
        if protocol not in protocols:
            raise unknown_name("protocol of this study", protocol, protocols)
    for dataset in options.datasets:
        data_set(dataset)
    for model in options.models:
        check_model(model)
    if methods is not None:
        for method in options.methods:
            if method not in methods:
                raise unknown_name("method", method, methods)
    elif options.methods:
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
    from nu_ensembles.methods import METHODS

    for name in names:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if not names:
        raise InputError("Name at least one method.")

"""The page of every study, drawn from made-up records: each section shows what it should or is left out."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.metrics import evaluate
from nu_ensembles.models import Model
from nu_ensembles.report.page import SortableTable, render_page
from nu_ensembles.tuning import SearchSettings
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import cells_of
from nu_ensembles_studies.experiments import auto_safety, training_size
from nu_ensembles_studies.experiments.beta_sensitivity import landscape
from nu_ensembles_studies.experiments.deployment import TITLES as UNDER_SHIFT
from nu_ensembles_studies.experiments.ensemble_size import plateau
from nu_ensembles_studies.experiments.gains_by_size import UNCLEAR
from nu_ensembles_studies.experiments.training_size import size_curves
from nu_ensembles_studies.measure.auto_and_standard import auto_and_standard_scores
from nu_ensembles_studies.measure.jobs import steps_of
from nu_ensembles_studies.measure.parts import load_parts
from nu_ensembles_studies.measure.scores import fit_on_unlabeled, reliability
from nu_ensembles_studies.pages.claims import claims_section
from nu_ensembles_studies.pages.curves import Series, curves_section
from nu_ensembles_studies.pages.maps import number_map
from nu_ensembles_studies.pages.study_page import study_page
from nu_ensembles_studies.pages.tables import members_section, scores_section
from nu_ensembles_studies.registry import STUDIES
from nu_ensembles_studies.results.claims import claims_of_nu
from nu_ensembles_studies.results.folder import Record
from nu_ensembles_studies.results.json_numbers import plain
from nu_ensembles_studies.results.results import Results

MAKER = {"nu_ensembles": "1", "jax": "1", "backend": "cpu", "device": "cpu", "code": "1"}
ABOUT = {"commands": ["nu-ensembles study"], "environment": {"device": "cpu", "versions": {"jax": "1"}}, "seconds": 9.0}
EXPECTED = {
    "table1": "Beside the published values",
    "training-size": "Against the number of labels",
    "corruptions": "Corruption by corruption",
    "ensemble-size": "Where more members stop helping",
    "cost": "Times standard",
    "auto-safety": "Auto against standard ensembles",
    "deployment": "Every method on the deployment",
    "beta-sensitivity": "How wide is the range of good β?",
    "label-ablation": "Is it the diversity of the labels?",
    "unlabelled-size": "fixed visits",
    "when": "What ν gains, by size",
    "methods": "Every method against the standard ensemble",
    "ensembles": "All places together",
    "rivals": "What was aimed at, and what came out",
}


def scores(rng: np.random.Generator, softer: float) -> dict:
    """Made-up measurements of one epoch; `softer` is better calibrated."""
    logits = rng.normal(size=(3, 40, 10)) / softer
    members = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    labels = rng.integers(0, 10, 40)
    found = plain(evaluate(members, labels))
    corrupted = [
        {"corruption": name, "severity": severity, **{key: found[key] for key in ("accuracy", "nll", "ece", "tace")}}
        for name in ("fog", "snow")
        for severity in range(1, 6)
    ]
    return {
        "test": found,
        "members": {"accuracy": [0.11, 0.5, 0.4], "confidence": [0.1, 0.6, 0.7]},
        "scaled": found,
        "validation": found,
        "temperature": 1.1,
        "reliability": reliability(members.mean(axis=0), labels),
        "unlabeled": fit_on_unlabeled(members, labels, labels[None].repeat(3, axis=0)),
        "prefixes": {str(size): found for size in range(1, 4)},
        "corruptions": corrupted,
        "cost": {"seconds_per_epoch_and_member": softer, "milliseconds_a_step": 1.0, "first_seconds": 2.0},
        **dict.fromkeys(("auto", "early_stopped", "early_temperature", "last_epoch"), found),
        **dict.fromkeys(("tolerance_0.5", "tolerance_2"), found),
        **dict.fromkeys(("standard", "source_standard"), found),
        **dict.fromkeys((*UNDER_SHIFT, *(f"source_{name}" for name in UNDER_SHIFT)), found),
        **dict.fromkeys(("companion", "calibrated", "companion_calibrated"), found),
        "choice": {"beta": 0.0, "beta_0.5": 0.0, "beta_2": 0.0},
    }


def made_up(name: str, datasets: tuple[str, ...] = ("digits",), **asked) -> Results:
    study = STUDIES[name]
    asked = {"models": ("mlp",), "seeds": 2, "backend": "cpu", **asked}
    options = study.complete(StudyOptions(datasets=datasets, **asked))
    rows = study.declare(options)
    rng = np.random.default_rng(0)
    by_method = {method: scores(rng, 1.0 if method == "standard" else 2.0) for method in ("standard", "nu", "other")}
    records = {}
    for cell in cells_of(rows):
        found = by_method.get(cell.method, by_method["other"])
        measured = {"epochs": {str(epochs): found for epochs in cell.epochs}}
        records[cell.identity] = Record(cell, "done", MAKER, measured, seconds=1.0)
    return Results(study, options, rows, records, ABOUT)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_page_and_one_for_nothing_trained(name):
    results = made_up(name, ("cifar10",) if name == "table1" else ("digits",))
    text = render_page(study_page(results))
    assert EXPECTED[name] in text
    assert "nan" not in text.split("<body>")[1].replace("Numan", "").split("<script>")[0].lower().replace("is nan", "")
    empty = Results(results.study, results.options, results.rows, {}, ABOUT)
    assert "Missing and failed cells" in render_page(study_page(empty))


def test_published_values_stand_beside_ours_where_the_same_was_trained():
    table = scores_section(made_up("table1", ("cifar10",))).blocks[0]
    assert isinstance(table, SortableTable)
    assert [column.title for column in table.columns][:4] == ["Trained how", "Accuracy %", "NLL", "ECE"]
    assert table.rows[0][3].text.endswith("[0.238]")  # ECE of the standard MLP
    (ablated,) = scores_section(made_up("label-ablation", ("cifar10",))).blocks
    assert isinstance(ablated, SortableTable)
    brackets = ["[" in row[3].text for row in ablated.rows]
    assert brackets == [True, True, False, False, False]  # standard, without replacement, and what the paper lacks


def test_claims_stand_in_one_line_for_each_place_with_verdict_and_both_differences():
    section = claims_section(made_up("table1", ("cifar10",)))
    assert section is not None
    (_, published, _) = section.blocks
    assert isinstance(published, SortableTable)
    ((where, accuracy, ece, *_),) = published.rows
    assert where.text == "CIFAR-10, MLP"
    assert accuracy.text.endswith("[+0.3]")
    assert ece.text.replace("\N{NO-BREAK SPACE}", " ").startswith(("holds: ", "not settled: "))
    assert ece.text.endswith("[−0.140]")


def test_members_that_learnt_nothing_are_counted():
    section = members_section(made_up("table1", ("cifar10",)))
    assert section is not None
    table = section.blocks[1]
    assert isinstance(table, SortableTable)
    (_, _, worst, best, lost), *_ = table.rows
    assert (worst.text, best.text, lost.text) == ("11.0", "50.0", "2 of 6")  # one of three, on both seeds


def test_rows_that_were_not_trained_are_left_out_of_the_scores():
    results = made_up("table1", ("cifar10",))
    standard = {cell: record for cell, record in results.records.items() if cell.method == "standard"}
    half = Results(results.study, results.options, results.rows, standard, ABOUT)
    for table in scores_section(half).blocks:
        assert isinstance(table, SortableTable)
        assert [row[0].text for row in table.rows] == ["CIFAR-10, MLP: standard"]


def trained_at(results: Results, *sizes: int) -> Results:
    """The same study with only the cells of some numbers of labels."""
    records = {cell: record for cell, record in results.records.items() if cell.n_train in sizes}
    return Results(results.study, results.options, results.rows, records, ABOUT)


def test_claims_are_made_only_of_places_where_something_was_trained():
    claims = training_size.claims(trained_at(made_up("training-size"), 25, 100))
    sizes = {claim.place[1] for claim in claims}
    assert sizes == {25, 100}
    assert [claim.text for claim in claims if "shrinks" in claim.text] == ["gain shrinks from n = 25 to 100"] * 2


def test_a_claim_of_a_trained_place_stays_although_both_scores_are_infinite():
    results = made_up("table1", ("cifar10",))
    for record in results.records.values():
        for found in record.measured["epochs"].values():
            found["test"]["nll"] = None  # as JSON has it
    verdicts = {claim.metric: claim.verdict for claim in claims_of_nu(results)}
    assert len(verdicts) == 6
    assert verdicts["nll"] == "not settled"


def test_a_gain_cannot_shrink_over_one_size():
    claims = training_size.claims(trained_at(made_up("training-size"), 25))
    assert claims
    assert not any("shrinks" in claim.text for claim in claims)


def test_one_size_makes_no_curve():
    assert size_curves(trained_at(made_up("training-size"), 25)) is None
    assert size_curves(trained_at(made_up("training-size"), 25, 400)) is not None


def test_a_curve_says_where_it_is_infinite():
    values = np.array([[1.0, 2.0], [1.0, np.inf], [1.0, 1.5]])

    def caption(values: np.ndarray) -> str:
        series = [Series("ν", "nu", (1, 2, 3), values)]
        section = curves_section("Curves", "", {"Somewhere": []}, lambda rows, metric: series, "x", ("nll",))
        assert section is not None
        gallery: Any = section.blocks[1]
        return gallery.pictures[0].caption

    assert caption(values) == "NLL; ν: not drawn where a seed's is infinite"
    assert caption(values[::2].repeat(2, axis=0)[:3]) == "NLL"


def test_a_map_of_betas_takes_the_seeds_that_all_of_them_have():
    results = made_up("beta-sensitivity")
    (place,) = results.places()
    whole = landscape(results, place, "nll")
    assert (whole.n_seeds, whole.betas[0]) == (2, 0.0)
    fewer = {c: r for c, r in results.records.items() if c.seed == 0 or ("beta", 0.01) not in c.options}
    found = landscape(Results(results.study, results.options, results.rows, fewer, ABOUT), place, "nll")
    assert found.n_seeds == 1
    without = {c: r for c, r in results.records.items() if ("beta", 0.01) not in c.options}
    found = landscape(Results(results.study, results.options, results.rows, without, ABOUT), place, "nll")
    assert found.n_seeds == 2
    assert np.isnan(found.means).all(axis=1).tolist() == [beta == 0.01 for beta in found.betas]


def test_a_map_colours_only_what_the_seeds_settle():
    ax = number_map(np.array([[0.2, -0.1]]), "ab", "c", digits=1, diverging=True, coloured=np.array([[True, False]]))
    colours = ax.collections[0].get_array()
    assert colours is not None
    assert colours.ravel().tolist() == [0.2, 0.0]
    assert [text.get_text() for text in ax.texts] == ["0.2", "−0.1"]


def test_a_map_of_one_seed_says_why_it_has_no_colours():
    assert UNCLEAR in render_page(study_page(made_up("when", seeds=1)))
    assert UNCLEAR not in render_page(study_page(made_up("when")))


def test_published_values_stand_only_beside_what_was_trained_with_as_many_labels():
    squares = "squares the published values"
    assert squares in render_page(study_page(made_up("table1", ("cifar10",))))
    assert squares not in render_page(study_page(made_up("table1", ("cifar10",), n=(500,))))


@pytest.mark.parametrize("n", [50, 100, 128, 300])
def test_all_methods_train_for_the_same_number_of_steps(n):
    rows = STUDIES["methods"].declare(StudyOptions(n=(n,), seeds=1, backend="cpu"))
    fixed = [row.candidates[0][0][0] for row in rows if row.protocol == "fixed"]
    steps = [step for cell in fixed for step in steps_of(cell)]
    assert len(steps) > 5
    assert max(steps) <= 1.05 * min(steps)


def test_a_failed_cell_is_named_with_its_reason():
    results = made_up("table1")
    cell, record = next(iter(results.records.items()))
    failed = Record(record.cell, "failed", MAKER, {}, reason="the device ran out of memory")
    broken = Results(results.study, results.options, results.rows, {**results.records, cell: failed}, ABOUT)
    assert f"Failed: {cell.title}: the device ran out of memory" in render_page(study_page(broken))


@pytest.mark.parametrize(("asked", "trained"), [(None, 20), (10, 10), (4, 4)])
def test_ensembles_have_as_many_members_as_asked_for(asked, trained):
    rows = STUDIES["ensemble-size"].declare(StudyOptions(members=asked, backend="cpu"))
    assert {cell.n_members for cell in cells_of(rows)} == {trained}


def test_the_plateau_is_where_the_mean_stays_close_to_its_last_value():
    falling = np.array([[0.5], [0.3], [0.21], [0.201], [0.2]])
    assert plateau(falling, 0.02) == 3
    assert plateau(falling, 0.002) == 4
    assert plateau(falling, 1.0) == 1
    assert plateau(np.empty((0, 2)), 1.0) is None


def test_the_study_of_auto_compares_with_the_tolerance_that_auto_has() -> None:
    assert auto_safety.TOLERANCE == SearchSettings().tolerance == NuEnsembleClassifier().tolerance


def test_the_study_of_auto_trains_convolutional_networks_on_images_alone() -> None:
    asked = StudyOptions(datasets=("digits", "wine"), seeds=1, backend="cpu")
    by_default, both = (
        {(row.dataset, row.model) for row in auto_safety.rows(options)}
        for options in (STUDIES["auto-safety"].complete(asked), dataclasses.replace(asked, models=("mlp", "lenet")))
    )
    assert by_default == {("digits", "mlp"), ("wine", "mlp")}
    assert both == by_default | {("digits", "lenet")}


def test_the_study_of_auto_gives_a_convolutional_network_images_and_a_perceptron_columns(monkeypatch) -> None:
    seen = []

    class FittedError(Exception):
        pass

    def fit(self, x, y, X_unlabeled):
        seen.append((self.model, x.shape[1:], X_unlabeled.shape[1:]))
        raise FittedError

    monkeypatch.setattr(NuEnsembleClassifier, "fit", fit)
    options = StudyOptions(datasets=("digits",), models=("mlp", "lenet"), n=(50,), seeds=1, backend="cpu")
    for cell in cells_of(auto_safety.rows(options)):
        with pytest.raises(FittedError):
            auto_and_standard_scores(cell, load_parts(cell))
    (perceptron, *columns), (convolutional, *images) = seen
    assert (perceptron, columns) == ("mlp", [(64,), (64,)])
    assert isinstance(convolutional, Model)
    assert images == [(8, 8, 1), (8, 8, 1)]

"""The published numbers, some of them spelled out, and what the protocols make of them."""

import pytest

from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import settings_of_protocol
from nu_ensembles_studies.declare.published import TABLE_1, Setting, setting, table_value
from nu_ensembles_studies.declare.study import Place, cells_of
from nu_ensembles_studies.registry import STUDIES


def test_the_table_has_all_rows_and_the_headline_values():
    assert len(TABLE_1) == 22
    assert table_value("cifar10", "lenet", "standard", "ece") == 0.184
    assert table_value("cifar10", "lenet", "nu", "ece") == 0.131
    assert table_value("cifar100", "mlp", "nu", "nll") == 4.171
    assert table_value("digits", "mlp", "nu", "ece") is None
    assert table_value("cifar10", "lenet", "nu", "epistemic") is None


def test_one_setting_serves_all_sizes_but_for_cifar_10_above_a_thousand_labels():
    assert setting("cifar10", "lenet", "nu", 1000) == Setting(1e-3, 100, (("beta", 0.01),))
    assert setting("cifar10", "lenet", "nu", 4000) == Setting(1e-3, 240, (("beta", 0.01),))
    assert setting("cifar100", "lenet", "nu", 1000) == setting("cifar100", "lenet", "nu", 40_000)


def test_matched_gives_every_method_the_rate_and_epochs_of_nu():
    (standard,) = settings_of_protocol(Place("cifar10", 1000, "lenet", "matched"), "standard")
    assert standard == Setting(1e-3, 100)
    (agree,) = settings_of_protocol(Place("cifar10", 1000, "lenet", "matched"), "agree_to_disagree")
    assert agree == Setting(1e-3, 100, (("alpha", 1e-4),))  # the loss as its authors wrote it


def test_the_baselines_of_the_table_run_as_the_paper_ran_them():
    (masegosa,) = settings_of_protocol(Place("cifar10", 1000, "lenet", "published"), "pac2")
    assert dict(masegosa.options) == {"variant": "as_published"}
    assert settings_of_protocol(Place("cifar10", 1000, "lenet", "published"), "dice") == []


def test_the_published_grid_is_a_few_trajectories_and_a_finer_one_is_offered():
    options = StudyOptions(("cifar10",), ("lenet",), ("nu",), ("selected",), seeds=1)
    cells = cells_of(STUDIES["table1"].declare(options))
    assert len(cells) == 2 * 4  # rates × β, whatever the number of lengths
    assert {len(cell.epochs) for cell in cells} == {15}
    finer = StudyOptions(("cifar10",), ("lenet",), ("nu",), ("selected",), seeds=1, fine_betas=True)
    betas = {dict(cell.options)["beta"] for cell in cells_of(STUDIES["table1"].declare(finer))}
    assert min(betas) == 1e-4


def test_the_published_and_the_matched_standard_ensemble_are_one_training():
    options = StudyOptions(("cifar10",), ("lenet",), ("standard", "nu"), ("published", "matched"), seeds=1)
    cells = cells_of(STUDIES["table1"].declare(options))
    assert [(cell.method, cell.epochs) for cell in cells] == [("standard", (100, 200)), ("nu", (100,))]


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("datasets", [("digits",), ("cifar10", "cifar100")])
def test_every_study_can_be_declared_on_digits_and_on_cifar(name, datasets):
    options = StudyOptions(datasets=datasets, models=("mlp",), seeds=2, backend="gpu")
    rows = STUDIES[name].declare(options)
    cells = cells_of(rows)
    assert rows
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.dataset for cell in cells} == set(datasets)

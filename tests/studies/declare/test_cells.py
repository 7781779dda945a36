"""A cell is one training, named by everything but the epochs at which it is measured."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell, merged_cells

CELL = StudyCell("cifar10", 1000, "lenet", "nu", seed=3, epochs=(100,), options=(("beta", 0.01),))


def test_lengths_of_one_training_are_one_cell_that_is_measured_at_all_of_them():
    longer = dataclasses.replace(CELL, epochs=(200, 50))
    other = dataclasses.replace(CELL, seed=4)
    assert merged_cells([CELL, other, longer]) == [dataclasses.replace(CELL, epochs=(50, 100, 200)), other]


def test_epochs_change_neither_identity_nor_file_name_and_everything_else_does():
    assert dataclasses.replace(CELL, epochs=(7,)).name == CELL.name
    changes = {"seed": 4, "learning_rate": 1e-4, "options": (("beta", 0.1),), "dtype": "bfloat16", "n_members": 5}
    names = {dataclasses.replace(CELL, **{name: value}).name for name, value in changes.items()}
    assert len(names | {CELL.name}) == len(changes) + 1
    assert CELL.name.startswith("cifar10-n1000-lenet-nu-seed3-")


@given(st.lists(st.integers(1, 400), min_size=1), st.sampled_from([(), (("beta", 0.5),), (("hidden", (3, 4)),)]))
def test_a_cell_survives_json(epochs, options):
    cell = dataclasses.replace(CELL, epochs=tuple(epochs), options=options, also=("prefixes",))
    assert StudyCell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell


def test_a_cell_without_epochs_is_refused():
    with pytest.raises(InputError, match="after one epoch or more"):
        dataclasses.replace(CELL, epochs=())

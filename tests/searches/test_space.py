"""Spaces: what their files may say, and what is said of one that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.methods import LabelSmoothing, Nu, Standard
from nu_ensembles.searches.naming import Fixed, check_space, chosen, used
from nu_ensembles.searches.space import Space

FIXED = Fixed()


def test_a_file_reads_as_the_same_mapping(tmp_path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text("learning_rate: {log: [1e-4, 1e-2]}\nwidth: {int: [16, 48], step: 16}\nmethod: [standard, nu]\n")
    same = {
        "learning_rate": {"log": [1e-4, 1e-2]},
        "width": {"int": [16, 48], "step": 16},
        "method": {"choice": ["standard", "nu"]},
    }
    assert Space.of(file) == Space.of(same) == Space.of(Space.of(same))


def test_shares_go_evenly_through_all_values() -> None:
    space = Space.of({"a": {"float": [2, 4]}, "b": {"log": [1e-4, 1]}, "c": {"int": [1, 7], "step": 3}, "d": [5, 6]})
    a, b, c, d = space.parameters
    assert [a.at(0), a.at(0.5)] == [2.0, 3.0]
    assert [b.at(0), b.at(0.5)] == pytest.approx([1e-4, 1e-2])
    assert [c.at(share) for share in (0, 0.34, 0.99)] == [1, 4, 7]
    assert [d.at(0.49), d.at(0.5)] == [5, 6]


def test_a_grid_has_the_ends_and_all_choices() -> None:
    space = Space.of({"a": {"log": [1e-4, 1e-2], "points": 3}, "c": {"int": [1, 10], "points": 2}, "d": [True, False]})
    assert [np.round(each.grid(), 6).tolist() for each in space.parameters[:2]] == [[1e-4, 1e-3, 1e-2], [1, 10]]
    assert space.parameters[2].grid() == [True, False]
    assert space.grid_size() == 12


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "must name its parameters"),
        ({"learning_rate": 0.1}, "must be a kind and its values"),
        ({"learning_rate": {"lg": [1, 2]}}, "Did you mean 'log'"),
        ({"learning_rate": {"log": [0, 1]}}, "must begin above 0"),
        ({"learning_rate": {"float": [2, 1]}}, "from a smaller number to a larger one"),
        ({"width": {"int": [1.5, 3]}}, "from a whole number to another"),
        ({"method": {"choice": ["nu", "nu"]}}, "names a choice twice"),
        ({"method": {"choice": ["nu"], "step": 2}}, "has no step"),
        ({"width": {"int": [1, 3], "float": [1, 2]}}, "must have one kind"),
    ],
)
def test_a_space_that_cannot_be_is_refused_in_a_sentence(given, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Space.of(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"learning_rat": {"log": [1e-4, 1]}}, "Did you mean 'learning_rate'"),
        ({"nu.bta": {"log": [1e-4, 1]}}, "Did you mean 'nu.beta'"),
        ({"mixup.alpha": {"log": [1e-4, 1]}}, "is of a method that no trial has; add 'mixup'"),
        ({"epochs": {"int": [1, 9]}}, "every trial is scored along its way"),
        ({"method": ["nuu"]}, "Did you mean 'nu'"),
        ({"method": ["swag"]}, "does not train its members independently"),
        ({"model": ["mpl"]}, "Did you mean 'mlp'"),
        ({"alpha": {"float": [0, 1]}}, "Unknown parameter"),  # an option of methods that are not searched
        ({"width": [32, 64], "hidden": [[32]]}, "which say the same"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_the_nearest_that_does(given, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_space(Space.of(given), FIXED)


def test_parameters_become_a_network_a_method_and_settings() -> None:
    found = chosen({"width": 32, "layers": 3, "dropout": 0.1, "beta": 0.5, "learning_rate": 0.2}, FIXED)
    assert (found.model, dict(found.model_options)) == ("mlp", {"dropout": 0.1, "hidden": (32, 32, 32)})
    assert found.method == Nu(0.5)
    assert found.settings.learning_rate == 0.2
    assert dict(chosen({"width": 32}, FIXED).model_options) == {"hidden": (32, 32)}


def test_what_a_method_lacks_is_left_alone() -> None:
    given = {"method": "standard", "beta": 0.5, "learning_rate": 0.2}
    assert chosen(given, FIXED).method == Standard()
    assert used(given, FIXED) == {"method": "standard", "learning_rate": 0.2}
    smoothed = {"method": "label_smoothing", "label_smoothing.epsilon": 0.2, "nu.beta": 0.3}
    assert chosen(smoothed, FIXED).method == LabelSmoothing(epsilon=0.2)
    assert used(smoothed, FIXED) == {"method": "label_smoothing", "label_smoothing.epsilon": 0.2}

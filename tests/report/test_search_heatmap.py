"""The heat map shows what was measured, leaves out what was not, and frames the choices."""

import dataclasses
from typing import Any

import numpy as np

from nu_ensembles.report.heatmap import nll_heat_map


@dataclasses.dataclass
class Found:
    """What a search found, as far as the picture needs it."""

    betas: np.ndarray
    steps: np.ndarray
    nll: np.ndarray
    chosen: tuple[int, int]


GRID = Found(
    betas=np.array([0.0, 0.003]),
    steps=np.array([10, 20, 40]),
    nll=np.array([[2.0, 0.61, 0.80], [2.0, 0.55, np.nan]]),
    chosen=(1, 1),
)


def test_measured_cells_carry_their_value_and_dropped_ones_nothing():
    axes = nll_heat_map(GRID)
    assert sorted(text.get_text() for text in axes.texts) == ["0.55", "0.61", "0.80", "2.00", "2.00"]


def test_the_axes_name_betas_and_steps():
    axes = nll_heat_map(GRID)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10", "20", "40"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "0.003"]


def test_frames_stand_around_the_choice_and_the_early_stop_of_beta_zero():
    axes = nll_heat_map(GRID)
    patches: list[Any] = list(axes.patches)
    frames = {patch.get_label(): tuple(np.round(patch.get_center(), 6)) for patch in patches}
    assert frames == {"chosen (ν auto)": (1.0, 1.0), "standard, early-stopped": (1.0, 0.0)}


def test_without_beta_zero_no_standard_ensemble_is_marked():
    grid = Found(np.array([0.001]), GRID.steps, GRID.nll[1:], (0, 1))
    assert [patch.get_label() for patch in nll_heat_map(grid).patches] == ["chosen (ν auto)"]


def test_a_given_axes_is_drawn_into():
    axes = nll_heat_map(GRID).figure.add_subplot()
    assert nll_heat_map(GRID, axes) is axes

"""Figures draw what the metrics say, into the axes they are given, and leave nothing behind."""

import io
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nu_ensembles import metrics
from nu_ensembles.errors import InputError
from nu_ensembles.report import figures


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    shared = 2 * rng.normal(size=(300, 4))
    members = np.exp(shared + rng.normal(size=(3, 300, 4)))
    members /= members.sum(axis=-1, keepdims=True)
    return members, (shared + rng.gumbel(size=shared.shape)).argmax(axis=1)


def legend_of(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


DRAW = {
    "reliability": figures.reliability_diagram,
    "classes": figures.class_reliability,
    "agreement": lambda members, labels, ax=None: figures.member_agreement(members, ax),
    "risk": figures.risk_coverage_curve,
}


@pytest.mark.parametrize("name", DRAW)
def test_each_figure_draws_into_the_given_axes(name, case):
    ax = Figure().subplots()
    assert DRAW[name](*case, ax=ax) is ax
    assert ax.has_data()


@pytest.mark.parametrize("name", DRAW)
def test_each_figure_makes_its_own_axes_and_saves_without_a_display(name, case):
    ax = DRAW[name](*case)
    file = io.BytesIO()
    ax.figure.savefig(file, format="svg")
    assert 5_000 < len(file.getvalue()) < 200_000
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_the_reliability_diagram_shows_bin_accuracies_and_the_ece(case):
    probs = np.array([[0.65, 0.35]] * 2 + [[0.95, 0.05]] * 4)
    ax = figures.reliability_diagram(probs, [0, 1, 0, 0, 0, 1], n_bins=10)
    points = np.asarray(ax.collections[-1].get_offsets())
    np.testing.assert_allclose(points, [[0.65, 0.5], [0.95, 0.75]])
    assert ax.get_title() == f"ECE {metrics.ece(probs, [0, 1, 0, 0, 0, 1], n_bins=10):.3f}"
    bars: list[Any] = list(ax.child_axes[0].patches)
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx([0, 0, 0, 0, 0, 0, 2 / 6, 0, 0, 4 / 6])


def test_the_band_contains_the_points_and_can_be_left_out(case):
    banded = figures.reliability_diagram(*case, interval=0.99)
    plain = figures.reliability_diagram(*case, interval=None, histogram=False, title="mine")
    assert len(banded.collections) == len(plain.collections) + 1
    assert plain.child_axes == []
    assert plain.get_title() == "mine"


def test_the_agreement_matrix_is_the_pairwise_information(case):
    members, _ = case
    shown = figures.member_agreement(members).images[0].get_array()
    assert shown is not None
    matrix = metrics.pairwise_mutual_information(members)
    assert np.isnan(np.diag(np.ma.filled(shown, np.nan))).all()
    np.testing.assert_allclose(np.ma.filled(shown, np.nan)[0, 1:], matrix[0, 1:])


def test_class_reliability_names_the_worst_classes(case):
    ax = figures.class_reliability(*case, n_highlighted=2, class_names=["ant", "bee", "cat", "dog"])
    legend = legend_of(ax)
    assert len(legend) == 2
    assert all(label.split()[0] in {"ant", "bee", "cat", "dog"} for label in legend)


def test_two_models_share_one_risk_coverage_figure(case):
    members, labels = case
    ax = figures.risk_coverage_curve(members, labels, label="ensemble")
    figures.risk_coverage_curve(members[0], labels, ax, label="one member", colour="#c0392b")
    legend = legend_of(ax)
    assert legend[0] == f"ensemble: AURC {metrics.aurc(members, labels):.3f}"
    assert legend[1].startswith("one member: AURC")


def test_a_single_sample_can_be_drawn():
    probs, labels = np.array([[[0.9, 0.1]], [[0.8, 0.2]]]), [0]
    for draw in DRAW.values():
        draw(probs, labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.reliability_diagram([[0.5, 0.5]], [0], interval=95), "interval"),
        (lambda: figures.class_reliability([[0.5, 0.5]], [0], class_names=["a"]), "1 class names for 2"),
        (lambda: figures.member_agreement([[0.5, 0.5]]), "there is one"),
    ],
)
def test_misuse_is_explained(call, message):
    with pytest.raises(InputError, match=message):
        call()

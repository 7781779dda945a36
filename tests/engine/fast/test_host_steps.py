"""Steps that the host calls, each as two programs."""

from __future__ import annotations

import jax
import optax
import pytest

from nu_ensembles.diagnostics.rehearsal import random_assembly
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Nu, Pac2
from nu_ensembles.models import build


def started(model: str, settings: Settings, method: Nu | Pac2, n_lanes: int = 2) -> Run:
    """Lanes of a convolutional network on random 16x16 images."""
    made = random_assembly(build(model, 10), (16, 16, 3), method, n_lanes, settings, n_rows=32, n_unlabeled=32)
    return Run(*made, on_host=True)


def test_the_second_half_needs_little_memory_beside_what_the_first_one_kept() -> None:
    run = started("wrn-16-1", Settings(batch_size=16), Nu(0.1), n_lanes=1)
    first, second = run._lowered_steps(run.state_shapes())
    kept = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(first.out_info.pull_back))
    memory = second.compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < kept / 2


def test_the_first_half_gives_back_no_parameters() -> None:
    run = started("lenet", Settings(batch_size=4), Nu(0.1))
    first, _ = run._lowered_steps(run.state_shapes())
    parameters = {leaf.shape[1:] for leaf in jax.tree.leaves(run.state_shapes().params)}
    assert parameters.isdisjoint(leaf.shape[1:] for leaf in jax.tree.leaves(first.out_info.pull_back))


@pytest.mark.parametrize("optimiser", [None, optax.sgd(0.1, momentum=0.9)])
def test_the_shapes_of_a_state_are_known_before_it_is_drawn(optimiser: optax.GradientTransformation | None) -> None:
    run = started("wrn-10-1", Settings(optimiser=optimiser), Nu(0.1))
    drawn = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), run.state)
    assert run.state_shapes() == drawn

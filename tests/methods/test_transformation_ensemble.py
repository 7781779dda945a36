"""Transformations by hand, member k's inputs, symmetries, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, MultiSymmetryEnsemble, TransformationEnsemble
from nu_ensembles.methods.symmetry import Equivariant, Invariant, drawn
from nu_ensembles.models.image_maps import GROUPS, MAPS

IMAGE = jnp.arange(9.0).reshape(1, 3, 3)
MODEL = nu.models.mlp(2, hidden=(8,))


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bars, upright or lying, in noise: 24 labelled images `[24, 4, 4]`, their classes, and 30 unlabelled ones."""
    rng = np.random.default_rng(0)
    y = np.arange(54) % 2
    x = 0.3 * rng.normal(size=(54, 4, 4))
    for image, label in zip(x, y, strict=True):
        at = rng.integers(4)
        image[(slice(None), at) if label else (at, slice(None))] += 1
    return x[:24].astype(np.float32), y[:24], x[24:].astype(np.float32)


def test_maps_by_hand() -> None:
    np.testing.assert_array_equal(MAPS["flip"](IMAGE)[0], [[2, 1, 0], [5, 4, 3], [8, 7, 6]])
    np.testing.assert_array_equal(MAPS["rotate_90"](IMAGE)[0], [[2, 5, 8], [1, 4, 7], [0, 3, 6]])
    np.testing.assert_array_equal(MAPS["rotate_180"](IMAGE)[0], [[8, 7, 6], [5, 4, 3], [2, 1, 0]])
    step = jnp.tile(jnp.array([0.0, 0.0, 1.0, 1.0]), (1, 4, 1))
    np.testing.assert_allclose(MAPS["edges"](step)[0], np.tile([0.0, 1.0, 1.0, 0.0], (4, 1)), atol=1e-6)
    np.testing.assert_allclose(MAPS["edges"](jnp.full((1, 4, 4, 2), 3.0)), 0, atol=1e-6)
    np.testing.assert_allclose(MAPS["blur"](jnp.full((1, 5, 5), 2.0)), 2, rtol=1e-6)
    np.testing.assert_allclose(MAPS["grey"](jnp.array([[[[0.0, 3.0, 6.0]]]])), [[[[3.0, 3.0, 3.0]]]])


@pytest.mark.parametrize("name", MAPS)
def test_every_map_keeps_the_shape_and_treats_rows_alone(name: str) -> None:
    x = jax.random.normal(jax.random.key(0), (3, 4, 4, 2))
    found = MAPS[name](x)
    assert found.shape == x.shape
    np.testing.assert_allclose(found[1:2], MAPS[name](x[1:2]), rtol=1e-5, atol=1e-6)


def test_rows_are_drawn_from_the_group_and_it_is_told_which() -> None:
    x = jax.random.normal(jax.random.key(0), (40, 3, 3))
    moved, which = drawn(jax.random.key(1), x, "rotations")
    assert set(np.asarray(which).tolist()) == {0, 1, 2, 3}
    for row in range(40):
        expected = GROUPS["rotations"][int(which[row])](x[row : row + 1])[0]
        np.testing.assert_array_equal(moved[row], expected)


def test_symmetric_losses_by_hand() -> None:
    """A network whose logits and features are the image's first row: what it sees is what it says."""

    class FirstRow:
        def __call__(self, *inputs: jax.Array) -> tuple[jax.Array, ...]:
            return tuple(x[:, 0] for x in inputs)

        def with_features(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            return x[:, 0], x[:, 0]

    x = jnp.array([[[0.0, 2.0], [1.0, 5.0]]])
    head = {"kernel": jnp.eye(2), "bias": jnp.zeros(2)}
    batch = Batch(x, jnp.array([1]), jnp.ones(1), key=jax.random.key(0), auxiliary=head)
    as_it_is, turned_over = np.log1p(np.exp(-2)), np.log1p(np.exp(2))
    of_x, _ = jax.random.split(batch.key)  # pyright: ignore[reportArgumentType]
    which = int(drawn(of_x, x, "flips")[1][0])
    loss: Any = Invariant("flips").loss(FirstRow(), batch)
    assert float(loss) == pytest.approx([as_it_is, turned_over][which])
    # Said to be flipped where the second feature is the larger: as it is, that is wrong; flipped, it is wrong, too.
    loss = Equivariant("flips", weight=0.4).loss(FirstRow(), batch)
    assert float(loss) == pytest.approx(as_it_is + 0.4 * turned_over, rel=1e-5)


def test_member_k_sees_transformation_k(images, tmp_path: Path) -> None:
    x, y, u = images
    names = ("as_is", "edges", "rotate_90")
    ensemble = nu.fit(MODEL, x, y, method=TransformationEnsemble(names), n_members=4, steps=40, learning_rate=0.01)
    assert ensemble.training["procedure"]["transformations"] == [*names, "as_is"]
    found = ensemble.predict_members(u)
    for k, name in enumerate((*names, "as_is")):
        own = jax.tree.map(lambda leaf, k=k: leaf[k], ensemble.params["params"])
        logits = MODEL.apply(own, MAPS[name](jnp.asarray(u)), key=None, train=False)
        np.testing.assert_allclose(found[k], jax.nn.softmax(logits), atol=1e-5)
    ensemble.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_members(u), found)


def test_seen_as_they_are_it_is_the_standard_ensemble(images) -> None:
    x, y, u = images
    options = {"n_members": 2, "steps": 20, "learning_rate": 0.01}
    one = nu.fit(MODEL, x, y, method=TransformationEnsemble(("as_is",)), **options)
    np.testing.assert_array_equal(
        one.predict_members(u), nu.fit(MODEL, x, y, method="standard", **options).predict_members(u)
    )


def test_symmetries_random_labels_and_self_training_go_together(images) -> None:
    x, y, u = images
    names = ("invariant_rotations", "equivariant_rotations", "blur")
    method = TransformationEnsemble(names, beta=0.01, eras=1)
    ensemble = nu.fit(MODEL, x, y, u, method, 3, steps=20, learning_rate=0.01)
    assert ensemble.n_members == 3
    assert len(ensemble.training["procedure"]["pseudo_labels_by_era_and_class"]) == 1
    assert np.isfinite(ensemble.predict_proba(u)).all()


def test_pixels_are_transformed_as_they_predict(images) -> None:
    x, y, _ = images
    pixels = (255 * np.clip((x + 1) / 3, 0, 1)).astype(np.uint8)
    ensemble = nu.fit(
        MODEL, pixels, y, method=TransformationEnsemble(("blur",)), n_members=1, steps=60, learning_rate=0.02
    )
    own = jax.tree.map(lambda leaf: leaf[0], ensemble.params["params"])
    logits = MODEL.apply(own, MAPS["blur"](jnp.asarray(pixels / 255)), key=None, train=False)
    np.testing.assert_allclose(ensemble.predict_members(pixels)[0], jax.nn.softmax(logits), atol=1e-5)


def test_tables_and_images_that_cannot_be_turned_are_refused(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match=r"images \[H, W\] or \[H, W, C\], and the rows here have the shape \(4,\)"):
        nu.fit("mlp", x, y, method="transformations", steps=1)
    wide = np.zeros((40, 2, 3), np.float32)
    with pytest.raises(
        InputError, match=r"'rotations' turns images by a right angle, so they must be square, not \(2, 3\)"
    ):
        nu.fit("mlp", wide, y, method=TransformationEnsemble(("invariant_rotations",)), steps=1)
    with pytest.raises(InputError, match="'grey' changes nothing where images have one channel; leave it out"):
        nu.fit("mlp", wide, y, method=TransformationEnsemble(("grey",)), steps=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transformations": ()}, r"transformations must list at least one, as in \('as_is', 'edges'\), not \(\)"),
        ({"transformations": ("egdes",)}, r"Unknown transformation 'egdes'\. Did you mean 'edges'"),
        ({"beta": -1}, "beta must be a number of at least 0, not -1"),
        ({"eras": -1}, "eras must be a whole number of at least 0, not -1"),
        ({"fraction": 2}, "fraction is a share of the unlabelled rows, above 0 and at most 1, not 2"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TransformationEnsemble(**options)


def test_members_of_opposing_symmetries_take_turns_and_are_for_images() -> None:
    assert MultiSymmetryEnsemble().transformations == ("invariant_rotations", "equivariant_rotations")
    with pytest.raises(InputError, match="use another method for tables"):
        nu.fit("mlp", np.zeros((8, 3)), np.arange(8) % 2, method="multi_symmetry", steps=1)

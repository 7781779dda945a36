"""The trained ensemble: predictions in bounded memory, and a folder on disk that is whole or refused."""

from __future__ import annotations

import dataclasses
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import calibration, models, storage
from nu_ensembles.ensemble import files as module
from nu_ensembles.ensemble import trained
from nu_ensembles.ensemble.files import MANIFEST, WEIGHTS
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.models import Model
from nu_ensembles.problem.preprocessing import Standardisation

NETWORK = models.mlp(3, hidden=(8,))
CLASSES = np.array(["cat", "dog", "eel"])


def ensemble(
    n_members: int = 3, model: Model = NETWORK, row_shape: tuple[int, ...] = (4,), **options: Any
) -> nu.Ensemble:
    """Networks with random weights: what is tested here does not depend on training."""
    params, state = module._templates(model, row_shape, n_members, "float32")
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), params)
    return nu.Ensemble(
        **{
            "classes": CLASSES,
            **options,
            "model": model,
            "params": params,
            "model_state": state,
            "row_shape": row_shape,
        }
    )


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)


# Prediction


def test_the_probability_is_the_mean_over_members() -> None:
    three, x = ensemble(), rows(10)
    members = three.predict_members(x)
    assert members.shape == (3, 10, 3)
    assert members.dtype == np.float32
    np.testing.assert_allclose(members.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(three.predict_proba(x), members.mean(axis=0), atol=1e-7)
    assert (three.predict(x) == CLASSES[members.mean(axis=0).argmax(axis=1)]).all()


def test_a_members_probabilities_are_the_softmax_of_its_network() -> None:
    three, x = ensemble(), rows(10)
    second = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), three.params)
    logits = NETWORK.apply(second, jnp.asarray(x), key=None, train=False)
    np.testing.assert_allclose(three.predict_members(x)[1], jax.nn.softmax(logits), atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 7, 16])
def test_batches_do_not_change_the_result(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    three, x = ensemble(), rows(21)
    together = three.predict_members(x)
    np.testing.assert_allclose(three.predict_members(x, batch_size=batch_size), together, atol=1e-6)
    monkeypatch.setattr(trained, "ROWS_PER_PASS", 8)
    np.testing.assert_allclose(three.predict_members(x, batch_size=batch_size), together, atol=1e-6)
    np.testing.assert_allclose(three.predict_proba(x, batch_size=batch_size), together.mean(axis=0), atol=1e-6)


def test_no_rows_give_no_predictions() -> None:
    nothing = np.zeros((0, 4))
    assert ensemble().predict_members(nothing).shape == (3, 0, 3)
    assert ensemble().predict_proba(nothing).shape == (0, 3)
    assert ensemble().predict(nothing).shape == (0,)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((2, 3)), r"X has rows of shape \(3,\) where \(4,\) is expected"),
        (np.zeros((0, 3)), r"X has rows of shape \(3,\) where \(4,\) is expected"),
        (np.zeros(4), r"X has shape \(4,\); give one row per sample"),
        (3.0, "give one row per sample"),
        ([["a"] * 4], "X holds <U1 values"),
        (np.full((2, 4), 1e39), "beyond float32's range"),
        (np.zeros((2, 4), np.uint8), "both must be uint8 or neither"),
    ],
)
def test_rows_that_cannot_be_predicted_are_refused(x: Any, sentence: str) -> None:
    for predict in (ensemble().predict_proba, ensemble().predict_members, ensemble().predict):
        with pytest.raises(InputError, match=sentence):
            predict(x)


def test_the_row_that_is_not_finite_is_named_by_its_number_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "ROWS_PER_PASS", 8)
    x = rows(21)
    x[19, 2] = np.nan
    with pytest.raises(InputError, match="the first in row 19"):
        ensemble().predict_proba(x)


def test_a_batch_size_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size must be a whole number of at least 1, not 0"):
        ensemble().predict_proba(rows(2), batch_size=0)


def test_inputs_are_standardised_first() -> None:
    scaling = Standardisation(np.arange(4.0), np.full(4, 2.0))
    scaled = ensemble(standardisation=scaling)
    np.testing.assert_allclose(
        scaled.predict_proba(rows(10)), ensemble().predict_proba((rows(10) - np.arange(4)) / 2), atol=1e-6
    )


def test_bytes_become_x_over_255_where_bytes_were_trained_on() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4)).astype(np.uint8)
    of_pixels = ensemble(pixels=True)
    np.testing.assert_allclose(of_pixels.predict_proba(pixels), ensemble().predict_proba(pixels / 255), atol=1e-6)
    with pytest.raises(InputError, match="X holds float64 where the labelled training rows hold uint8"):
        of_pixels.predict_proba(pixels / 255)


def test_the_temperature_softens_the_mean_probability_and_leaves_the_members() -> None:
    x, soft = rows(10), ensemble(temperature=2.0)
    powered = np.sqrt(ensemble().predict_proba(x).astype(np.float64))
    np.testing.assert_allclose(soft.predict_proba(x), powered / powered.sum(axis=1, keepdims=True), atol=1e-6)
    assert (soft.predict_members(x) == ensemble().predict_members(x)).all()
    assert soft.predict_proba(x).dtype == np.float32


def test_convolutions_predict_member_after_member_on_a_cpu_with_the_same_result() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 1)).astype(np.uint8)
    two = ensemble(2, models.lenet(3), (8, 8, 1), pixels=True)
    members = two.predict_members(images)
    alone = dataclasses.replace(two, params=jax.tree.map(lambda leaf: leaf[1:], two.params))
    assert members.shape == (2, 3, 3)
    np.testing.assert_allclose(alone.predict_members(images)[0], members[1], atol=1e-6)


@pytest.mark.slow
def test_members_that_are_dropout_masks_are_the_same_for_every_row_in_convolutions_too() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1)).astype(np.uint8)
    keys = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(0), 2)))
    network = models.wide_resnet(3, depth=10, widen=1)
    masked = ensemble(1, network, (8, 8, 1), pixels=True, mask_keys=keys)
    # Small weights: with large ones every softmax is certain, whatever the mask.
    masked = dataclasses.replace(masked, params=jax.tree.map(lambda leaf: leaf / 10, masked.params))
    members = masked.predict_members(images)
    assert (masked.n_members, members.shape) == (2, (2, 5, 3))
    assert np.abs(members[0] - members[1]).max() > 1e-3
    np.testing.assert_allclose(masked.predict_members(images[::-1])[:, ::-1], members, atol=1e-5)


def test_many_rows_predict_in_bounded_memory() -> None:
    scaling = Standardisation(np.zeros(16), np.ones(16))
    fifty = ensemble(50, row_shape=(16,), standardisation=scaling)
    x = np.tile(np.random.default_rng(1).normal(size=(1000, 16)).astype(np.float32), (200, 1))
    fifty.predict_proba(x[:5000])
    tracemalloc.start()
    result = fifty.predict_proba(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.shape == (200_000, 3)
    # All members' predictions would take 120 MB, and the scaled rows of double precision 51 MB.
    assert peak - result.nbytes < 32e6


def test_an_ensemble_shows_itself_in_a_line() -> None:
    trained = ensemble(training={"method": "nu"}, temperature=1.25)
    assert repr(trained) == ("<Ensemble: 3 members of mlp, 3 classes, rows of shape (4,), method nu, temperature 1.25>")
    own = dataclasses.replace(ensemble(), model=dataclasses.replace(NETWORK, spec=None))
    assert repr(own) == ("<Ensemble: 3 members of a network of your own, 3 classes, rows of shape (4,), temperature 1>")


# Putting together


def test_ensembles_of_the_same_kind_can_be_put_together() -> None:
    joined = ensemble(2).with_members_of(ensemble(3))
    assert joined.n_members == 5
    assert (joined.predict_members(rows(4))[2:] == ensemble(3).predict_members(rows(4))).all()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (ensemble(model=models.mlp(3, hidden=(9,))), "network"),
        (ensemble(classes=np.array(["a", "b", "c"])), "classes"),
        (ensemble(row_shape=(5,)), "input shape"),
        (ensemble(standardisation=Standardisation(np.zeros(4), np.ones(4))), "input scaling"),
        (ensemble(pixels=True), "input scaling"),
    ],
    ids=["network", "classes", "input shape", "scaling", "pixels"],
)
def test_ensembles_that_differ_cannot(other: nu.Ensemble, named: str) -> None:
    for one, two in ((ensemble(), other), (other, ensemble())):
        with pytest.raises(InputError, match=f"Only ensembles of the same {named}"):
            one.with_members_of(two)


# On disk


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["ä", "dog", "a longer name"]),
        np.array([-1, 5, 70000]),
        np.array([0.0, 1.0, 2.5e300]),
        np.array(["x", "y", "z"], dtype=object),
        np.array([1, 2, 3], np.uint8),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, classes: np.ndarray) -> None:
    saved = ensemble(
        classes=classes,
        standardisation=Standardisation(np.arange(4) / 3, np.arange(1, 5) / 7),
        temperature=1.25,
        training={"method": "nu", "seed": 3},
        history=[{"step": 1, "nll": 0.1}],
    )
    saved.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {MANIFEST, WEIGHTS}
    loaded = nu.Ensemble.load(tmp_path / "model")
    jax.tree.map(np.testing.assert_array_equal, loaded.params, saved.params)
    assert loaded.classes.dtype == classes.dtype
    assert loaded.classes.tolist() == classes.tolist()
    assert loaded.model is saved.model
    assert saved.differences(loaded.model, loaded.classes, (4,), loaded.standardisation, loaded.pixels) == []
    assert (loaded.temperature, loaded.training, loaded.history) == (1.25, saved.training, saved.history)
    assert (loaded.predict_proba(rows(5)) == saved.predict_proba(rows(5))).all()


def test_two_classes_may_be_booleans(tmp_path: Path) -> None:
    saved = ensemble(model=models.mlp(2, hidden=(8,)), classes=np.array([False, True]), pixels=True)
    saved.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    assert loaded.classes.dtype == bool
    assert loaded.pixels


def test_parameters_that_were_trained_in_float64_come_back_as_such(tmp_path: Path) -> None:
    single = ensemble(training={"dtype": "float64"})
    double = dataclasses.replace(single, params=jax.tree.map(lambda leaf: leaf.astype(np.float64), single.params))
    double.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    assert {leaf.dtype for leaf in jax.tree.leaves(loaded.params)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(loaded.predict_proba(rows(5)), single.predict_proba(rows(5)), atol=1e-6)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    ensemble().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_any_flipped_byte_is_found_and_its_file_named(saved: Path, name: str) -> None:
    raw = (saved / name).read_bytes()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << position % 8
        (saved / name).write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=name):
            nu.Ensemble.load(saved)


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
@pytest.mark.parametrize("length", [0, 1, 40, -1])
def test_a_file_that_was_cut_off_is_named(saved: Path, name: str, length: int) -> None:
    (saved / name).write_bytes((saved / name).read_bytes()[:length])
    with pytest.raises(DamagedFileError, match=name):
        nu.Ensemble.load(saved)


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(DamagedFileError, match=f"{name} is missing"):
        nu.Ensemble.load(saved)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no saved ensemble at .*nowhere: the folder does not exist"):
        nu.Ensemble.load(tmp_path / "nowhere")


def test_an_ensemble_of_a_newer_version_asks_for_an_upgrade(saved: Path) -> None:
    manifest = storage.read_sealed_json(saved / MANIFEST, "The manifest")
    storage.write_sealed_json(
        saved / MANIFEST, {**manifest, "format": module.FORMAT + 1, "package": "nu-ensembles 9.0"}
    )
    with pytest.raises(InputError, match=r"saved by a newer version \(nu-ensembles 9\.0\).*upgrade nu-ensembles"):
        nu.Ensemble.load(saved)


def test_an_existing_folder_is_not_overwritten(saved: Path) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(InputError, match="model exists already: choose another folder"):
        ensemble(1).save(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_classes_that_cannot_be_saved_leave_nothing_behind(tmp_path: Path) -> None:
    strange = ensemble(classes=np.array([(1,), (2,), (3,)], dtype=object))
    with pytest.raises(InputError, match="Only classes that are text, numbers, booleans or dates can be saved; rename"):
        strange.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(set(calibration.CALIBRATORS) - {"none"}))
def test_every_calibrator_is_saved_within_the_manifest_and_predicts_the_same_afterwards(
    tmp_path: Path, name: str
) -> None:
    plain, x = ensemble(), rows(30)
    members = plain.predict_members(x)
    fitted = calibration.build(name).fit(members, np.arange(30) % 3)
    calibrated = dataclasses.replace(plain, calibrator=fitted)
    np.testing.assert_allclose(calibrated.predict_proba(x), fitted.apply(members), atol=1e-6)
    assert (calibrated.predict_proba(x) != plain.predict_proba(x)).any()
    calibrated.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_proba(x), calibrated.predict_proba(x))


def test_a_calibrator_of_other_classes_is_refused(tmp_path: Path) -> None:
    of_two = calibration.build("vector_scaling").fit([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    dataclasses.replace(ensemble(), calibrator=of_two).save(tmp_path / "model")
    with pytest.raises(DamagedFileError, match="should be one of 3 classes, not 2"):
        nu.Ensemble.load(tmp_path / "model")


@pytest.mark.parametrize(
    "change", [{"calibrator": "unheard_of"}, {"scale": "wide"}, {"scale": [1.0, 2.0]}, {"shift": None}]
)
def test_an_altered_calibrator_is_refused_with_the_name_of_the_file(tmp_path: Path, change: dict[str, Any]) -> None:
    fitted = calibration.build("vector_scaling").fit(np.full((3, 3), 1 / 3), [0, 1, 2])
    dataclasses.replace(ensemble(), calibrator=fitted).save(tmp_path / "model")
    manifest = storage.read_sealed_json(tmp_path / "model" / MANIFEST, "The manifest")
    altered = {**manifest, "calibrator": {**manifest["calibrator"], **change}}
    storage.write_sealed_json(tmp_path / "model" / MANIFEST, altered)
    with pytest.raises(DamagedFileError, match=r"The calibrator in .*manifest\.json cannot be used"):
        nu.Ensemble.load(tmp_path / "model")


def own_init(key: Any, x: Any) -> Any:
    return {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}


def own_apply(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
    return x @ variables["w"] + variables["b"]


def test_a_network_of_ones_own_is_passed_when_loading(tmp_path: Path) -> None:
    own = Model(own_init, own_apply)
    mine = ensemble(model=own)
    mine.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"holds a network of your own; pass it: Ensemble.load\(folder, model=…\)"):
        nu.Ensemble.load(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model", model=own)
    assert (loaded.predict_proba(rows(5)) == mine.predict_proba(rows(5))).all()
    with pytest.raises(InputError, match=r"The weights in .* do not fit the network"):
        nu.Ensemble.load(tmp_path / "model", model=NETWORK)


def test_an_ensemble_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(ensemble()))
    assert (copy.predict_proba(rows(5)) == ensemble().predict_proba(rows(5))).all()

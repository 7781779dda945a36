"""`nu.fit` from arrays to an ensemble: what decides the result to the last bit, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nu_ensembles as nu
from nu_ensembles import metrics, models, storage
from nu_ensembles.errors import InputError, NonFiniteLossError
from nu_ensembles.methods import Nu, Standard, method
from nu_ensembles.training import RunFolder, runner

Fit = Callable[..., nu.Ensemble]
NETWORK = models.mlp(3, hidden=(8,))
OPTIONS: dict[str, Any] = {"n_members": 3, "steps": 20, "batch_size": 8, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def fit(blobs) -> Fit:
    """`nu.fit` on the blobs with a small network, whatever the call leaves open."""

    def call(**options: Any) -> nu.Ensemble:
        x, y, u = blobs
        return nu.fit(**{"model": NETWORK, "x": x, "y": y, "x_unlabeled": u, **OPTIONS, **options})

    return call


@pytest.fixture(scope="module")
def fitted(fit: Fit) -> nu.Ensemble:
    return fit(method=Nu(0.1))


def assert_same_bits(one: nu.Ensemble, other: nu.Ensemble) -> None:
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)


def difference(one: nu.Ensemble, other: nu.Ensemble, members: slice = slice(None)) -> float:
    gaps = jax.tree.map(lambda a, b: float(np.abs(a[members] - b[members]).max()), one.params, other.params)
    return max(jax.tree.leaves(gaps))


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch):
    """Runs a call up to the point where the engine would train, and returns what the engine was given."""

    class ReachedEngineError(Exception):
        pass

    given: dict[str, Any] = {}

    def no_training(assembly: Any, n_steps: int, **options: Any) -> None:
        given.update(**assembly._asdict(), n_steps=n_steps, **options)
        raise ReachedEngineError

    def capture(fit: Fit, **options: Any) -> dict[str, Any]:
        monkeypatch.setattr(runner, "train", no_training)
        with pytest.raises(ReachedEngineError):
            fit(**options)
        return given

    return capture


# What decides the result


@pytest.mark.parametrize("standardize", [False, True])
def test_beta_zero_gives_the_bits_of_the_standard_ensemble(fit: Fit, standardize: bool) -> None:
    zero = fit(method=Nu(0.0), standardize=standardize)
    standard = fit(method=Standard(), standardize=standardize)
    assert_same_bits(zero, standard)
    assert zero.training["method"] == "standard"


def test_standard_uses_unlabelled_rows_for_the_scaling_of_the_inputs_only(fit: Fit, blobs) -> None:
    _, _, u = blobs
    assert_same_bits(fit(method=Standard()), fit(method=Standard(), x_unlabeled=None))
    assert difference(
        fit(method=Standard(), standardize=True), fit(method=Standard(), x_unlabeled=9 * u, standardize=True)
    )


def test_the_method_is_nu_with_unlabelled_data_and_standard_without(fit: Fit, captured) -> None:
    assert isinstance(captured(fit)["lanes"].method, Nu)
    assert captured(fit, x_unlabeled=None)["lanes"].method == Standard()


def test_standardising_is_scaling_by_hand_over_labelled_and_unlabelled_rows(fit: Fit, blobs) -> None:
    x, _, u = (10 * part + 3 for part in blobs)
    rows = np.concatenate([x, u]).astype(np.float64)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    by_hand = fit(x=(x - mean) / deviation, x_unlabeled=(u - mean) / deviation)
    found = fit(x=x, x_unlabeled=u, standardize=True)
    assert difference(found, by_hand) < 1e-4
    np.testing.assert_allclose(found.predict_proba(x), by_hand.predict_proba((x - mean) / deviation), atol=1e-4)


def test_the_seed_decides_whether_number_or_key(fit: Fit, fitted: nu.Ensemble) -> None:
    assert_same_bits(fit(method=Nu(0.1), seed=0), fitted)
    assert_same_bits(fit(method=Nu(0.1), seed=jax.random.key(0)), fitted)
    assert difference(fit(method=Nu(0.1), seed=1), fitted) > 0.01


def test_rows_of_weight_zero_are_as_good_as_absent(fit: Fit, blobs) -> None:
    x, y, _ = blobs
    weight = np.linspace(0.5, 2, 40)
    weight[::6] = 0
    kept = weight > 0
    assert_same_bits(fit(sample_weight=weight), fit(x=x[kept], y=y[kept], sample_weight=weight[kept]))


def test_weights_matter_and_their_scale_does_not(fit: Fit, fitted: nu.Ensemble) -> None:
    weight = np.where(np.arange(40) % 3 == 0, 4.0, 1.0)
    assert_same_bits(fit(method=Nu(0.1), sample_weight=np.full(40, 7.0)), fitted)
    assert_same_bits(fit(sample_weight=weight), fit(sample_weight=2 * weight))
    favoured = fit(method=Nu(0.1), sample_weight=weight).predict_proba(np.zeros((1, 4)))[0, 0]
    assert favoured > fitted.predict_proba(np.zeros((1, 4)))[0, 0]


def test_bytes_are_pixels_and_become_x_over_255(fit: Fit, blobs) -> None:
    pixels, u = (np.clip(40 * part + 100, 0, 255).astype(np.uint8) for part in (blobs[0], blobs[2]))
    as_bytes = fit(x=pixels, x_unlabeled=u, steps=5)
    as_numbers = fit(x=(pixels / 255).astype(np.float32), x_unlabeled=(u / 255).astype(np.float32), steps=5)
    assert difference(as_bytes, as_numbers) < 1e-6
    np.testing.assert_allclose(as_bytes.predict_proba(pixels), as_numbers.predict_proba(pixels / 255), atol=1e-6)


def test_fewer_rows_than_a_batch_wrap_around(fit: Fit, blobs) -> None:
    x, y, u = blobs
    small = fit(x=x[:5], y=y[:5], x_unlabeled=u[:3])
    assert np.isfinite(small.predict_proba(x)).all()
    assert (small.predict(x[:5]) == y[:5]).mean() >= 0.8


def test_classes_that_do_not_occur_get_a_probability(fit: Fit, blobs) -> None:
    x, y, _ = blobs
    ensemble = fit(y=np.array(["ham", "spam"])[y % 2], classes=["egg", "ham", "spam"])
    assert ensemble.classes.tolist() == ["egg", "ham", "spam"]
    assert ensemble.predict_proba(x).shape == (40, 3)
    assert set(ensemble.predict(x)) <= {"ham", "spam"}
    assert ensemble.predict_proba(x)[:, 0].max() < 0.5


def test_the_wrapper_of_unlabelled_rows_is_taken_off(fit: Fit, blobs, fitted: nu.Ensemble) -> None:
    assert_same_bits(fit(x_unlabeled=nu.Unlabeled(blobs[2]), method=Nu(0.1)), fitted)


def test_what_was_asked_is_kept_with_the_ensemble(fitted: nu.Ensemble) -> None:
    kept = fitted.training
    assert kept["method"] == "nu"
    assert kept["hyper_parameters"] == {"beta": 0.1, "labels": "without_replacement", "weighting": "constant"}
    assert (kept["n_steps"], kept["batch_size"], kept["unlabeled_batch_size"]) == (20, 8, 8)
    assert (kept["n_labelled"], kept["n_unlabelled"], kept["seed"]) == (40, 50, 0)


# Members


def test_members_of_a_smaller_ensemble_are_the_first_ones_of_a_larger(fit: Fit, fitted: nu.Ensemble) -> None:
    alone = fit(method=Nu(0.1), n_members=1)
    assert alone.n_members == 1
    assert difference(alone, fitted, slice(0, 1)) < 1e-5


def test_only_missing_members_are_trained_and_the_result_is_that_of_the_large_fit(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"method": Nu(0.1), "plan": "sequential"}
    large, small = fit(**options), fit(n_members=2, **options)
    trained: list[list[int]] = []
    engine = runner.train

    def recording(assembly: Any, *arguments: Any, **rest: Any) -> Any:
        trained.append(assembly.lanes.member.tolist())
        return engine(assembly, *arguments, **rest)

    monkeypatch.setattr(runner, "train", recording)
    added = fit(add_to=small, **options)
    assert trained == [[2]]
    assert_same_bits(added, large)
    assert added.n_members == 3


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"method": Nu(0.2)}, "hyper_parameters"),
        ({"method": Standard()}, "method"),
        ({"steps": 21}, "n_steps"),
        ({"learning_rate": 0.5}, "learning_rate"),
        ({"standardize": True}, "input scaling"),
        ({"model": models.mlp(3, hidden=(9,))}, "network"),
        ({"augment": lambda key, x: x}, "augment"),
        ({"optimizer": optax.sgd(0.1)}, "optimizer"),
        ({"classes": [2, 1, 0]}, "classes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_members_are_added_only_with_the_same_arguments(
    fit: Fit, fitted: nu.Ensemble, changed: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=f"trained with another .*{named}.*; members can be added only with the same"):
        fit(**{"method": Nu(0.1), "n_members": 5, "add_to": fitted, **changed})


def test_an_ensemble_that_has_all_members_says_so(fit: Fit, fitted: nu.Ensemble) -> None:
    with pytest.raises(InputError, match="The ensemble has 3 members already; ask for more than that"):
        fit(method=Nu(0.1), add_to=fitted)


def test_members_that_train_together_cannot_be_added(fit: Fit, fitted: nu.Ensemble) -> None:
    @method()
    class Joint(Standard):
        name: ClassVar[str] = "joint"
        shape: ClassVar[Any] = "joint"

    with pytest.raises(InputError, match="Members of 'joint' do not train independently, so none can be added"):
        fit(method=Joint(), n_members=5, add_to=fitted)


# Length, validation, options


@pytest.mark.parametrize(
    ("options", "n_steps"),
    [
        ({"epochs": 3}, 15),
        ({"epochs": 0.5}, 2),
        ({"epochs": 1, "batch_size": 64}, 1),
        ({}, 500),
        ({"steps": 7}, 7),
    ],
)
def test_an_epoch_is_as_many_steps_as_whole_batches(fit: Fit, captured, options: dict[str, Any], n_steps: int) -> None:
    assert captured(fit, **{"steps": None, **options})["n_steps"] == n_steps


def test_validation_scores_stand_in_the_history(fit: Fit, blobs, fitted: nu.Ensemble) -> None:
    x, y, _ = blobs
    ensemble = fit(method=Nu(0.1), validation=(x[:30], y[:30]), evaluate_every=1.5)
    assert [row["step"] for row in ensemble.history] == [8, 16, 20]
    assert_same_bits(ensemble, fitted)
    expected = metrics.evaluate(ensemble.predict_members(x[:30]), y[:30])
    assert ensemble.history[-1] == pytest.approx({"step": 20, **expected}, abs=1e-6, nan_ok=True)
    assert ensemble.history[0]["nll"] > ensemble.history[-1]["nll"]


def test_options_reach_the_engine(fit: Fit, captured) -> None:
    sgd = optax.sgd(0.1)

    def shifted(key: jax.Array, rows: jax.Array) -> jax.Array:
        return rows + 1

    given = captured(
        fit,
        optimizer=sgd,
        augment=shifted,
        augment_unlabeled=True,
        unlabeled_batch_size=16,
        weight_decay=0.5,
        plan="sequential",
    )
    program, lanes = given["program"], given["lanes"]
    assert program.optimiser is sgd
    assert program.augment is program.augment_unlabeled is shifted
    assert (program.batch_size, program.unlabeled_batch_size) == (8, 16)
    assert lanes.weight_decay.tolist() == [0.5] * 3
    assert given["plan"] == "sequential"


def test_a_named_network_computes_in_the_dtype_of_the_training(fit: Fit, captured) -> None:
    with jax.enable_x64(True):
        program = captured(fit, model="mlp", dtype="float64")["program"]
    assert program.dtype == "float64"
    assert dict(program.model.spec.options)["dtype"] == "float64"


def test_the_program_of_the_standard_ensemble_does_not_depend_on_unlabelled_rows(fit: Fit, captured, blobs) -> None:
    with_few, with_many = (
        captured(fit, method=Standard(), x_unlabeled=rows)["program"] for rows in (blobs[2][:3], blobs[2])
    )
    assert with_few == with_many


def test_without_unlabelled_rows_nu_falls_back_with_a_warning(fit: Fit, captured) -> None:
    for nothing in (None, np.zeros((0, 4)), nu.Unlabeled([])):
        with pytest.warns(UserWarning, match="no unlabelled data, so 'nu' falls back to a standard ensemble; pass"):
            assert captured(fit, method="nu", x_unlabeled=nothing)["lanes"].method == Standard()


def test_a_diverging_training_says_what_to_do(fit: Fit) -> None:
    with pytest.raises(NonFiniteLossError, match="Lower the learning rate"):
        fit(method=Nu(0.1), learning_rate=1e38)


# What is refused, with nothing written


def changed(array: np.ndarray, value: float) -> np.ndarray:
    array = array.astype(np.float64)
    array[7, 2] = value
    return array


def bad_calls(blobs) -> dict[str, tuple[dict[str, Any], str]]:
    x, y, u = blobs
    return {
        "infinity": ({"x": changed(x, np.inf)}, r"x contains infinity: 1 value\(s\) not finite, the first in row 7"),
        "infinity in U": ({"x_unlabeled": changed(u, np.inf)}, "x_unlabeled contains infinity: .*row 7"),
        "columns of U": ({"x_unlabeled": u[:, :3]}, r"x_unlabeled has rows of shape \(3,\) where \(4,\) is expected"),
        "bytes in U": ({"x_unlabeled": u.astype(np.uint8)}, "both must be uint8 or neither"),
        "one class": ({"y": np.zeros(40, int)}, r"y holds one class only \(0\)"),
        "fractions": ({"y": y + 0.5}, "y holds fractions"),
        "too few labels": ({"y": y[:-1]}, r"y has shape \(39,\) where \(40,\) is expected"),
        "class not listed": ({"classes": [0, 1]}, "y holds the label 2, which is not among the classes"),
        "no member": ({"n_members": 0}, "n_members must be a whole number of at least 1, not 0"),
        "unknown model": ({"model": "lenett"}, "Unknown model 'lenett'. Did you mean 'lenet'"),
        "no model": (
            {"model": jnp.tanh},
            r"model must be text or a nu\.Model \(wrap your own .* from_equinox\), not <Pjit",
        ),
        "too many logits": (
            {"model": models.mlp(5)},
            r"turns two rows into \(2, 5\) where \(2, 3\) is expected: one logit",
        ),
        "images wanted": ({"model": "lenet"}, r"LeNet takes images .* use the model 'mlp' for tables"),
        "unknown method": ({"method": "nuu"}, "Unknown method 'nuu'. Did you mean 'nu'"),
        "steps and epochs": ({"steps": 5, "epochs": 5}, "Give epochs or steps, not both"),
        "no steps": ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
        "no epochs": ({"steps": None, "epochs": 0}, "epochs must be a number above 0, not 0"),
        "words for epochs": ({"steps": None, "epochs": "ten"}, "epochs must be a number or None, not 'ten'"),
        "batch size": ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        "plan": ({"plan": "paralel"}, "Unknown plan 'paralel'"),
        "augmentation": ({"augment": "flip"}, "Unknown augmentation 'flip'. Did you mean 'flip_crop'"),
        "validation columns": ({"validation": (x[:, :2], y)}, r"the validation x has rows of shape \(2,\)"),
        "validation labels": ({"validation": (x, y + 1)}, "y holds the label 3, which is not among the classes"),
        "validation pair": ({"validation": x}, "validation must be a pair of values or None"),
        "evaluate_every": ({"validation": (x, y), "evaluate_every": 0}, "evaluate_every must be a number above 0"),
        "seed": ({"seed": "today"}, "A seed is a whole number or a jax.random key"),
        "weights": ({"sample_weight": -np.ones(40)}, "sample_weight must be finite and not negative"),
        "resume": ({"resume": True, "run_folder": None}, "resume=True needs the run_folder"),
    }


@pytest.mark.parametrize("name", list(bad_calls((np.zeros((40, 4)), np.zeros(40), np.zeros((50, 4))))))
def test_bad_input_is_refused_in_one_sentence_and_nothing_is_written(
    fit: Fit, blobs, tmp_path: Path, name: str
) -> None:
    options, sentence = bad_calls(blobs)[name]
    with pytest.raises(InputError, match=sentence) as refusal:
        fit(**{"run_folder": tmp_path / "run", **options})
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


# Run folders


def test_a_run_folder_ends_with_scores_and_the_model_and_no_checkpoint(fit: Fit, blobs, tmp_path: Path) -> None:
    x, y, _ = blobs
    ensemble = fit(
        method=Nu(0.1), run_folder=tmp_path / "run", validation=(x, y), evaluate_every=2, checkpoint_seconds=0
    )
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"config.yaml", "environment.json", "metrics.json", "log.txt", "model", "checkpoints"}
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    # By their text: nan, which some scores are, does not equal itself.
    assert repr(storage.read_json(tmp_path / "run" / "metrics.json", "The scores")) == repr(ensemble.history)
    assert_same_bits(nu.Ensemble.load(tmp_path / "run" / "model"), ensemble)
    with pytest.raises(InputError, match="holds a finished run"):
        fit(method=Nu(0.1), run_folder=tmp_path / "run", resume=True)


def test_what_led_to_the_model_is_removed_only_after_it_is_saved(
    fit: Fit, fitted: nu.Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any) -> None:
        raise InputError("model cannot be written (No space left on device): choose a place with room.")

    run = tmp_path / "run"
    options: dict[str, Any] = {"method": Nu(0.1), "run_folder": run, "checkpoint_seconds": 0}
    with monkeypatch.context() as patch:
        patch.setattr(nu.Ensemble, "save", full_disk)
        with pytest.raises(InputError, match="No space left"):
            fit(**options)
    assert (run / "checkpoints" / "checkpoint.json").exists()
    assert (run / "unfinished").exists()
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "end", full_disk)  # as if it were killed when the model had just been saved
        with pytest.raises(InputError, match="No space left"):
            fit(**options, resume=True)
    assert_same_bits(nu.Ensemble.load(run / "model"), fitted)
    assert_same_bits(fit(**options, resume=True), fitted)
    assert not (run / "unfinished").exists()


def test_classes_that_cannot_be_saved_are_refused_before_the_training(fit: Fit, blobs, tmp_path: Path) -> None:
    labels = np.array([b"a", b"b", b"c"])[blobs[1]]
    with pytest.raises(InputError, match="Only classes that are text, numbers, booleans or dates can be saved"):
        fit(y=labels, run_folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("plan", ["vectorised", pytest.param("sequential", marks=pytest.mark.slow)])
def test_a_fit_that_was_killed_in_mid_save_resumes_to_the_same_bits(fit: Fit, blobs, tmp_path: Path, plan: str) -> None:
    x, y, _ = blobs
    storage.save_arrays(tmp_path / "blobs.safetensors", dict(zip("xyu", blobs, strict=True)))
    script = Path(__file__).with_name("killed_training.py")
    killed = subprocess.run(
        [sys.executable, script, tmp_path, plan, "nu"], env=os.environ, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9, killed.stderr
    left = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert "checkpoint.json" in left
    options = {"method": Nu(0.1), "plan": plan, "validation": (x[:5], y[:5]), "evaluate_every": 1}
    unbroken = fit(**options)
    resumed = fit(**options, run_folder=tmp_path / "run", resume=True)
    assert_same_bits(resumed, unbroken)
    assert [row["step"] for row in resumed.history] == [5, 10, 15, 20]
    assert repr(resumed.history) == repr(unbroken.history)

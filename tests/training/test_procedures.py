"""Methods of several trainings: each trains, breaks off, resumes, saves and loads; what they choose, what they refuse.

The sizes are those of the other tests of training, so that all share compiled programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest

import nu_ensembles as nu
from nu_ensembles import methods, models, storage
from nu_ensembles.engine import train as engine
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.ensemble.files import MANIFEST
from nu_ensembles.errors import InputError
from nu_ensembles.methods import AgreeToDisagree, HyperDeep, McDropout, Nu, SelfTraining, Single, Standard, Swag
from nu_ensembles.training import runner

Fit = Callable[..., nu.Ensemble]
NETWORK = models.mlp(3, hidden=(8,))
OPTIONS: dict[str, Any] = {"n_members": 3, "steps": 20, "batch_size": 8, "learning_rate": 0.01}
POOL = HyperDeep(pool_size=3, learning_rates=(0.01, 0.03), weight_decays=(1e-4, 1.0), dropouts=(0.0,))
PROCEDURES: dict[str, methods.Procedure] = {
    "single": Single(),
    "mc_dropout": McDropout(),
    "swag": Swag(n_snapshots=5, learning_rate=0.02),
    "hyper_deep": POOL,
    "self_training": SelfTraining(eras=2, fraction=0.4),
}


class PowerCutError(Exception):
    pass


@pytest.fixture(scope="module")
def fit(blobs) -> Fit:
    """`nu.fit` on the blobs with a small network, whatever the call leaves open."""

    def call(**options: Any) -> nu.Ensemble:
        x, y, u = blobs
        return nu.fit(**{"model": NETWORK, "x": x, "y": y, "x_unlabeled": u, **OPTIONS, **options})

    return call


@pytest.fixture(scope="module")
def unbroken(fit: Fit) -> dict[str, nu.Ensemble]:
    return {name: fit(method=method) for name, method in PROCEDURES.items()}


@pytest.fixture
def stages_trained(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What every training of a procedure was given."""
    given: list[dict[str, Any]] = []
    train = runner.train

    def recording(assembly: Any, n_steps: int, **options: Any) -> Any:
        given.append({**assembly._asdict(), "n_steps": n_steps, **options})
        return train(assembly, n_steps, **options)

    monkeypatch.setattr(runner, "train", recording)
    return given


def assert_same(one: nu.Ensemble, other: nu.Ensemble, x: np.ndarray) -> None:
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    np.testing.assert_array_equal(one.predict_members(x), other.predict_members(x))


# Run folders


# A stage saves at its end and once more when it is kept, so the odd cuts fall within a stage.
@pytest.mark.parametrize(
    ("name", "cut"),
    [("single", 1), ("mc_dropout", 1), ("swag", 3), ("hyper_deep", 1), ("hyper_deep", 3), ("self_training", 5)],
)
def test_a_procedure_breaks_off_resumes_saves_and_loads_with_the_same_bits(
    fit: Fit, unbroken, blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cut: int
) -> None:
    save, n_saved = CheckpointFolder.save, 0

    def save_until_the_power_goes(*arguments: Any, **options: Any) -> None:
        nonlocal n_saved
        save(*arguments, **options)
        n_saved += 1
        if n_saved == cut:
            raise PowerCutError

    where = {"method": PROCEDURES[name], "run_folder": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save_until_the_power_goes)
        with pytest.raises(PowerCutError):
            fit(**where, checkpoint_seconds=0)
    resumed = fit(**where, resume=True)
    assert_same(resumed, unbroken[name], blobs[0])
    assert resumed.training == unbroken[name].training
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []

    loaded = nu.Ensemble.load(tmp_path / "run" / "model")
    assert_same(loaded, resumed, blobs[0])
    assert loaded.training == resumed.training
    assert loaded.training["method"] == name
    assert (loaded.predict(blobs[0]) == blobs[1]).mean() > 0.6


def test_finished_stages_are_not_trained_again(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken, blobs
) -> None:
    class AfterTheFirstEra(SelfTraining):
        def carry_out(self, trainer: Any) -> Any:
            train, n_stages = trainer.train, 0

            def two_stages(*arguments: Any, **options: Any) -> Any:
                nonlocal n_stages
                n_stages += 1
                if n_stages == 3:
                    raise PowerCutError
                return train(*arguments, **options)

            trainer.train = two_stages
            return super().carry_out(trainer)

    with pytest.raises(PowerCutError):
        fit(method=AfterTheFirstEra(eras=2, fraction=0.4), run_folder=tmp_path / "run", checkpoint_seconds=1e9)
    left = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert left == {"era-0", "era-1"}
    advanced: list[int] = []
    advance = engine.Run.advance

    def counting(run: Any, to_step: int, *arguments: Any) -> None:
        advanced.append(to_step - run.step)
        advance(run, to_step, *arguments)

    monkeypatch.setattr(engine.Run, "advance", counting)
    resumed = fit(method=PROCEDURES["self_training"], run_folder=tmp_path / "run", resume=True)
    assert advanced == [20]
    assert_same(resumed, unbroken["self_training"], blobs[0])


def test_a_procedure_that_was_killed_resumes_to_the_same_bits(fit: Fit, unbroken, blobs, tmp_path: Path) -> None:
    x, y, _ = blobs
    storage.save_arrays(tmp_path / "blobs.safetensors", dict(zip("xyu", blobs, strict=True)))
    script = Path(__file__).with_name("killed_training.py")
    command = [sys.executable, script, tmp_path, "vectorised", "self_training"]
    killed = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    # The first era is kept, the second was being kept.
    assert (tmp_path / "run" / "checkpoints" / "era-0" / "checkpoint.json").exists()
    same = {"method": PROCEDURES["self_training"], "validation": (x[:5], y[:5])}
    resumed = fit(**same, run_folder=tmp_path / "run", resume=True)
    assert_same(resumed, unbroken["self_training"], x)
    assert [row["step"] for row in resumed.history] == [20]


def test_a_run_is_resumed_with_the_procedure_it_was_started_with(fit: Fit, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    fit(method=POOL, run_folder=tmp_path / "run")
    config = storage.read_yaml(tmp_path / "run" / "config.yaml", "The settings")
    assert config["hyper_parameters"]["learning_rates"] == [0.01, 0.03]
    assert config["hyper_parameters"] == methods.hyper_parameters(POOL)


# What they do


def test_a_single_network_is_the_first_member_of_the_standard_ensemble(fit: Fit, unbroken, blobs) -> None:
    x, _, _ = blobs
    assert unbroken["single"].n_members == 1
    members = fit(method=Standard()).predict_members(x)
    np.testing.assert_allclose(unbroken["single"].predict_members(x)[0], members[0], atol=1e-5)
    assert unbroken["single"].training["procedure"]["network_steps"] == 20


def test_the_mean_of_swag_is_the_mean_of_what_shorter_trainings_end_with(fit: Fit) -> None:
    swa = fit(method=Swag(n_snapshots=2, last=0.1, scale=0.0))
    assert swa.training["procedure"]["snapshots_at"] == [19, 20]
    ends = [fit(method=Single(), steps=steps).params for steps in (19, 20)]
    jax.tree.map(
        lambda mean, a, b: np.testing.assert_allclose(mean, np.repeat((a + b) / 2, 3, axis=0), atol=1e-6),
        swa.params,
        *ends,
    )


def test_swag_members_differ_and_the_first_ones_stay_when_more_are_drawn(fit: Fit, unbroken, blobs) -> None:
    three, two = (
        each.predict_members(blobs[0]) for each in (unbroken["swag"], fit(method=PROCEDURES["swag"], n_members=2))
    )
    assert np.abs(three[0] - three[1]).max() > 1e-4
    np.testing.assert_allclose(three[:2], two, atol=1e-6)


def test_validation_rows_pick_the_hyper_deep_members_and_the_pick_is_told(fit: Fit, blobs, stages_trained) -> None:
    x, y, _ = blobs
    ensemble = fit(method=POOL, x=x[:32], y=y[:32], validation=(x[32:], y[32:]))
    told = ensemble.training["procedure"]
    (pool,) = stages_trained
    assert told["n_networks_trained"] == pool["lanes"].n_lanes == 3
    assert len(told["picked"]) == ensemble.n_members == 3
    for picked, setting, initialisation in zip(told["picked"], told["settings"], told["initialisations"], strict=True):
        assert setting["learning_rate"] == pytest.approx(float(pool["lanes"].learning_rate[picked]))
        assert setting["weight_decay"] == pytest.approx(float(pool["lanes"].weight_decay[picked]))
        assert picked == initialisation
    # The members are the picked networks themselves, so their NLL is the one that they were picked for.
    assert ensemble.history[-1]["nll"] == pytest.approx(told["validation_nll"], abs=1e-5)
    for k, picked in enumerate(told["picked"]):
        again = told["picked"].index(picked)
        jax.tree.map(lambda leaf, a=again, b=k: np.testing.assert_array_equal(leaf[a], leaf[b]), ensemble.params)


def test_without_validation_rows_a_fifth_is_held_out_and_all_rows_train_the_picked_settings(
    fit: Fit, stages_trained
) -> None:
    told = fit(method=POOL).training["procedure"]
    pool, refit = stages_trained
    assert [int(each["lanes"].n_rows[0]) for each in (pool, refit)] == [32, 40]
    assert refit["lanes"].member.tolist() == told["initialisations"] == [0, 1, 2]
    rates = [setting["learning_rate"] for setting in told["settings"]]
    assert refit["lanes"].learning_rate.tolist() == pytest.approx(rates)
    assert (told["n_networks_trained"], told["network_steps"]) == (6, 120)


def test_the_second_round_has_every_member_number_for_every_picked_setting(fit: Fit, stages_trained) -> None:
    one = HyperDeep(3, learning_rates=(0.03,), weight_decays=(0.0,), dropouts=(0.0,), stratify=True, refit=False)
    fit(method=one)
    pool, stratified = stages_trained
    assert stratified["lanes"].member.tolist() == [0, 1, 2]
    for each in (pool, stratified):
        assert each["lanes"].learning_rate.tolist() == pytest.approx([0.03] * 3)


def test_dropout_rates_are_trained_apart_and_put_together_in_the_order_of_the_pool(fit: Fit, stages_trained) -> None:
    several = HyperDeep(pool_size=6, learning_rates=(0.01,), weight_decays=(0.0,), dropouts=(0.0, 0.1), refit=False)
    told = fit(method=several, n_members=9).training["procedure"]
    rates = [dict(each["program"].model.spec.options)["dropout"] for each in stages_trained]
    assert sorted(rates) == [0.0, 0.1]
    groups = {rate: each["lanes"].member.tolist() for rate, each in zip(rates, stages_trained, strict=True)}
    for number, setting in zip(told["initialisations"], told["settings"], strict=True):
        assert number in groups[setting["dropout"]]


def test_hyper_deep_and_self_training_carry_random_labels_where_beta_says_so(
    fit: Fit, stages_trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = runner.train

    def first_era_only(assembly: Any, n_steps: int, **options: Any) -> Any:
        if options["description"].startswith("era-0"):
            return recording(assembly, n_steps, **options)
        stages_trained.append(assembly._asdict())
        raise PowerCutError

    monkeypatch.setattr(runner, "train", first_era_only)
    for method in (HyperDeep(**{**vars(POOL), "beta": 0.1}), SelfTraining(eras=1, fraction=0.4, beta=0.1)):
        with pytest.raises(PowerCutError):
            fit(method=method)
    pool, first, last = stages_trained
    assert isinstance(pool["lanes"].method, Nu)
    assert [int(each["data"].n_unlabeled) for each in (pool, first)] == [50, 50]
    n_labelled = int(last["lanes"].n_rows[0]) - 40
    assert 0 < n_labelled <= 21
    assert int(last["data"].n_unlabeled) == 50 - n_labelled


def test_pseudo_labels_grow_by_era_and_are_told(unbroken) -> None:
    told = np.array(unbroken["self_training"].training["procedure"]["pseudo_labels_by_era_and_class"])
    assert told.shape == (2, 3)
    assert (told.sum(axis=1) <= np.array([10, 20]) + 1).all()
    assert (told[1] > told[0]).all()
    assert unbroken["self_training"].training["procedure"]["network_steps"] == 3 * 3 * 20


# MC dropout


class Dropping(nn.Module):
    """A network of the user's own, with dropout."""

    @nn.compact
    def __call__(self, x: Any, deterministic: bool) -> Any:
        return nn.Dense(3)(nn.Dropout(0.5)(x, deterministic=deterministic))


class Normalised(nn.Module):
    """A network with dropout and batch statistics."""

    @nn.compact
    def __call__(self, x: Any, train: bool) -> Any:
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=not train)(nn.BatchNorm(use_running_average=not train)(x)))


def test_a_member_is_the_network_under_its_own_mask_whatever_the_batch(unbroken, blobs) -> None:
    x, mc = blobs[0], unbroken["mc_dropout"]
    assert (mc.n_members, mc.n_networks) == (3, 1)
    assert dict(mc.model.spec.options)["dropout"] == 0.05
    members = mc.predict_members(x)
    assert np.abs(members[0] - members[1]).max() > 1e-3
    np.testing.assert_allclose(mc.predict_members(x, batch_size=7), members, atol=1e-6)
    np.testing.assert_allclose(mc.predict_members(x[5:6])[:, 0], members[:, 5], atol=1e-6)
    key = jax.random.wrap_key_data(mc.mask_keys[1], impl="threefry2x32")
    alone = jax.tree.map(lambda leaf: leaf[0], mc.params)
    by_hand = jax.nn.softmax(mc.model.apply(alone, x[3:4], key=key, train=True))
    np.testing.assert_allclose(members[1, 3], by_hand[0], atol=1e-6)


def test_masks_stay_when_more_are_drawn(fit: Fit, unbroken) -> None:
    two = fit(method=McDropout(), n_members=2)
    np.testing.assert_array_equal(two.mask_keys, unbroken["mc_dropout"].mask_keys[:2])


def test_a_saved_network_with_masks_is_one_that_older_versions_refuse(unbroken, tmp_path: Path) -> None:
    for name, version, n_networks in (("mc_dropout", 2, 1), ("swag", 1, 3)):
        unbroken[name].save(tmp_path / name)
        manifest = storage.read_sealed_json(tmp_path / name / MANIFEST, "The manifest")
        assert (manifest["format"], manifest["n_members"], manifest["n_networks"]) == (version, 3, n_networks)


def test_a_manifest_without_a_number_of_networks_has_as_many_as_members(unbroken, blobs, tmp_path: Path) -> None:
    unbroken["swag"].save(tmp_path / "model")
    manifest = storage.read_sealed_json(tmp_path / "model" / MANIFEST, "The manifest")
    del manifest["n_networks"]
    storage.write_sealed_json(tmp_path / "model" / MANIFEST, manifest)
    assert_same(nu.Ensemble.load(tmp_path / "model"), unbroken["swag"], blobs[0])


def test_a_network_of_ones_own_uses_its_own_dropout(fit: Fit, blobs, tmp_path: Path) -> None:
    own = models.from_linen(Dropping())
    ensemble = fit(model=own, method=McDropout())
    ensemble.save(tmp_path / "model")
    assert_same(nu.Ensemble.load(tmp_path / "model", model=own), ensemble, blobs[0])
    assert np.ptp(ensemble.predict_members(blobs[0]), axis=0).max() > 0.01


def test_masks_of_one_network_are_not_put_together_with_networks(unbroken) -> None:
    for one, other in (("mc_dropout", "swag"), ("swag", "mc_dropout")):
        with pytest.raises(InputError, match="Members that are dropout masks of one network cannot be put together"):
            unbroken[one].with_members_of(unbroken[other])


# What is refused, with nothing written


IMAGES = np.zeros((40, 8, 8, 1), np.uint8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"method": SelfTraining(), "x_unlabeled": None},
            "The method 'self_training' needs unlabelled rows, and there are none; pass some, or use another method",
        ),
        ({"method": AgreeToDisagree(), "x_unlabeled": None}, "'agree_to_disagree' needs unlabelled rows"),
        (
            {"method": POOL, "optimizer": optax.sgd(0.1)},
            "which an optimizer of your own fixes; leave the optimizer out",
        ),
        ({"method": PROCEDURES["swag"], "optimizer": optax.sgd(0.1)}, "SWAG cannot change the rate of an optimizer"),
        (
            {"method": POOL, "x": IMAGES[:3, :, :, 0], "y": [0, 1, 2], "x_unlabeled": None},
            "3 labelled rows are too few to hold any out for picking networks; give validation rows",
        ),
        (
            {"method": "mc_dropout", "model": "lenet", "x": IMAGES, "x_unlabeled": None},
            "The network 'lenet' has no dropout; use 'mlp' or 'wide_resnet', or a network of your own that has some",
        ),
        (
            {"method": McDropout(0.2), "model": models.from_linen(Dropping())},
            "leave the rate out to use the network's own",
        ),
        (
            {"method": McDropout(), "model": models.from_linen(nn.Dense(3))},
            "MC dropout needs a network with dropout, and this one draws nothing at random",
        ),
        (
            {"method": McDropout(), "model": models.from_linen(Normalised())},
            "a network with mutable state .* cannot do",
        ),
        ({"method": Swag(), "model": models.from_linen(Normalised())}, "SWAG draws new weights, .* a network without"),
        (
            {"method": HyperDeep(dropouts=(0.1,)), "model": "lenet", "x": IMAGES, "x_unlabeled": None},
            "The network 'lenet' has no dropout",
        ),
    ],
)
def test_what_a_procedure_cannot_do_is_said_in_one_sentence(
    fit: Fit, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as refusal:
        fit(**options, run_folder=tmp_path / "run")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rate", [0, 1.0, -0.1])
def test_a_dropout_rate_that_makes_no_sense_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="dropout must"):
        McDropout(rate)


def test_no_members_can_be_added(fit: Fit, unbroken) -> None:
    with pytest.raises(InputError, match="Members of 'swag' do not train independently, so none can be added"):
        fit(method=PROCEDURES["swag"], n_members=5, add_to=unbroken["swag"])


def test_without_unlabelled_rows_hyper_deep_leaves_the_random_labels_out_with_a_warning(
    fit: Fit, unbroken, blobs
) -> None:
    with pytest.warns(
        UserWarning, match="no unlabelled data, so 'hyper_deep' falls back to 'hyper_deep' without random"
    ):
        without = fit(method=HyperDeep(**{**vars(POOL), "beta": 0.1}), x_unlabeled=None)
    assert_same(without, unbroken["hyper_deep"], blobs[0])


def test_procedures_are_built_by_name_with_lists_for_tuples() -> None:
    built = methods.build("hyper_deep", learning_rates=[0.1, 0.2], pool_size=4)
    assert built == HyperDeep(pool_size=4, learning_rates=(0.1, 0.2))
    assert methods.hyper_parameters(built)["learning_rates"] == [0.1, 0.2]
    assert methods.build("hyper_deep", **methods.hyper_parameters(built)) == built
    with pytest.raises(InputError, match=r"Unknown option of method 'swag' 'snapshots'\. Did you mean 'n_snapshots'"):
        methods.build("swag", snapshots=3)

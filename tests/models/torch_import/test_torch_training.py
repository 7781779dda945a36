"""Ensembles of PyTorch networks: trained, saved and loaded as any others, under every plan."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import jax
import numpy as np
import pytest
from sklearn.base import clone

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.models.inspect import uses_convolution

torch = pytest.importorskip("torch")
nn = torch.nn
FIT: dict[str, Any] = {"n_members": 2, "epochs": 2, "seed": 0, "batch_size": 16, "learning_rate": 0.01}


def table_net() -> Any:
    return nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)
    )


def image_net() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )


@pytest.fixture(scope="module")
def model() -> nu.Model:
    return nu.models.from_torch(table_net, (1, 4), features="6")


@pytest.fixture(scope="module")
def fitted(model: nu.Model, blobs: Any) -> nu.Ensemble:
    x, y, u = blobs
    return nu.fit(model, x, y, u, method=nu.methods.Nu(beta=0.1), **FIT)


def assert_same_bits(one: nu.Ensemble, other: nu.Ensemble) -> None:
    jax.tree.map(np.testing.assert_array_equal, (one.params, one.model_state), (other.params, other.model_state))


def test_an_ensemble_learns_and_its_members_differ(model: nu.Model, blobs: Any) -> None:
    x, y, u = blobs
    ensemble = nu.fit(model, x, y, u, method=nu.methods.Nu(beta=0.01), **{**FIT, "epochs": 40})
    assert np.mean(ensemble.predict(x) == y) > 0.8
    weights = ensemble.params["params"]["0.weight"]
    assert weights.shape == (2, 16, 4)
    assert not np.array_equal(weights[0], weights[1])


def test_the_same_seed_gives_the_same_bits(model: nu.Model, fitted: nu.Ensemble, blobs: Any) -> None:
    x, y, u = blobs
    torch.manual_seed(99)  # which does not matter
    assert_same_bits(fitted, nu.fit(model, x, y, u, method=nu.methods.Nu(beta=0.1), **FIT))


def test_batch_statistics_follow_the_training(fitted: nu.Ensemble) -> None:
    buffers = fitted.model_state["buffers"]
    np.testing.assert_array_equal(buffers["1.num_batches_tracked"], [4, 4])  # two passes of two batches
    assert not np.array_equal(buffers["1.running_mean"][0], buffers["1.running_mean"][1])


def test_a_saved_ensemble_predicts_the_same(fitted: nu.Ensemble, blobs: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"holds a network of your own; pass it"):
        nu.Ensemble.load(tmp_path / "saved")
    again = nu.Ensemble.load(tmp_path / "saved", model=nu.models.from_torch(table_net, (1, 4)))
    np.testing.assert_array_equal(again.predict_members(blobs[0]), fitted.predict_members(blobs[0]))


def test_members_go_back_into_the_network_by_name(fitted: nu.Ensemble, blobs: Any) -> None:
    network = table_net().eval()
    member = {**fitted.params["params"], **fitted.model_state["buffers"]}
    network.load_state_dict({name: torch.from_numpy(np.array(value[1])) for name, value in member.items()})
    with torch.no_grad():
        expected = network(torch.from_numpy(blobs[0])).softmax(-1).numpy()
    np.testing.assert_allclose(fitted.predict_members(blobs[0])[1], expected, rtol=1e-4, atol=1e-6)


def test_the_classifier_that_holds_a_network_is_cloned_copied_and_pickled(model: nu.Model, blobs: Any) -> None:
    x, y, u = blobs
    classifier = nu.EnsembleClassifier(
        "nu", 2, model, max_iter=2, early_stopping=False, method_options={"beta": 0.1}, random_state=0
    )
    twin: Any = clone(classifier)
    assert twin.model is model
    assert copy.deepcopy(classifier).model is model
    classifier.fit(x, y, X_unlabeled=u)
    probabilities = classifier.predict_proba(x)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(x), probabilities)


def test_a_network_from_a_lambda_is_pickled_by_cloudpickle() -> None:
    model = nu.models.from_torch(lambda: nn.Linear(4, 3), (1, 4))
    again = pickle.loads(cloudpickle.dumps(model))
    key, x = jax.random.key(0), np.ones((2, 4), np.float32)
    jax.tree.map(np.testing.assert_array_equal, model.init(key, x), again.init(key, x))


def test_methods_that_look_at_features_find_them(model: nu.Model, blobs: Any) -> None:
    x, y, u = blobs
    variables = model.init(jax.random.key(0), x[:2])
    assert model.features is not None
    features = np.asarray(model.features(variables, x, key=None, train=False))
    last = variables["params"]
    logits = features @ last["6.weight"].T + last["6.bias"]
    np.testing.assert_allclose(logits, model.apply(variables, x, key=None, train=False), rtol=1e-5, atol=1e-6)
    assert features.shape == (40, 8)
    ensemble = nu.fit(model, x, y, u, method="dice", **FIT)
    assert ensemble.predict_proba(x).shape == (40, 3)


def test_one_network_under_many_masks_is_an_ensemble_too(blobs: Any) -> None:
    x, y, _ = blobs
    model = nu.models.from_torch(lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), (1, 4))
    ensemble = nu.fit(model, x, y, method="mc_dropout", **FIT)
    members = ensemble.predict_members(x)
    assert members.shape == (2, 40, 3)
    assert not np.array_equal(members[0], members[1])


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8), np.arange(24) % 3


def test_plans_train_to_the_same_networks(images: Any) -> None:
    x, y = images
    model = nu.models.from_torch(image_net, (1, 3, 8, 8), channels_last=True)
    assert uses_convolution(model, (1, 8, 8, 3))
    options = {**FIT, "batch_size": 8, "method": "standard", "augment": "flip_crop"}
    one_by_one = nu.fit(model, x, y, plan="sequential", **options)
    together = nu.fit(model, x, y, plan="vectorised", **options)
    for one, other in zip(jax.tree.leaves(one_by_one.params), jax.tree.leaves(together.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_channels_last_turns_rows_that_are_images(images: Any) -> None:
    x = images[0].astype(np.float32) / 255
    plain = nu.models.from_torch(image_net, (1, 3, 8, 8))
    turned = nu.models.from_torch(image_net, np.zeros((2, 3, 8, 8)), channels_last=True)
    key = jax.random.key(0)
    variables = plain.init(key, np.moveaxis(x, -1, 1))
    jax.tree.map(np.testing.assert_array_equal, variables, turned.init(key, x))
    np.testing.assert_array_equal(plain.apply(variables, np.moveaxis(x, -1, 1)), turned.apply(variables, x))
    with pytest.raises(InputError, match=r"images \[H, W, C\] need channels_last=True"):
        plain.apply(variables, x)


def test_rows_of_whole_numbers_reach_the_network_as_such(blobs: Any) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.last = nn.Embedding(9, 5, padding_idx=0), nn.Linear(5, 2)

        def forward(self, tokens: Any) -> Any:
            return self.last(self.table(tokens).mean(1))

    x, y = np.random.default_rng(0).integers(0, 9, (20, 6)), np.arange(20) % 2
    model = nu.models.from_torch(Words, x[:1])
    ensemble = nu.fit(model, x.astype(np.float32), y, method="standard", **FIT)
    table = ensemble.params["params"]["table.weight"]
    np.testing.assert_array_equal(table[:, 0], np.zeros((2, 5)))  # the row for padding learns nothing
    assert ensemble.predict_proba(x.astype(np.float32)).shape == (20, 2)


SHARDED = """
import jax, numpy as np, torch, nu_ensembles as nu
assert len(jax.devices()) == 2
x, y = np.random.default_rng(0).normal(size=(40, 4)).astype("float32"), np.arange(40) % 3
net = lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
model = nu.models.from_torch(net, (1, 4))
fits = [nu.fit(model, x, y, method="standard", n_members=4, epochs=2, plan=plan) for plan in ("sharded", "vectorised")]
for one, other in zip(*(jax.tree.leaves(fit.params) for fit in fits)):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.slow
def test_members_spread_over_devices_start_from_their_own_weights() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

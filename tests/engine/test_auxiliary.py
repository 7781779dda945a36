"""A method may train parameters of its own beside the networks; a toy temperature per member stands for them here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from nu_ensembles import models
from nu_ensembles.engine.blocks import block_of
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.predict import lane_probabilities
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.errors import InputError, NonFiniteLossError
from nu_ensembles.methods import Batch, Dice, Nu, Standard, dice, method
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.models import Model, logits_and_features

N_STEPS = 8


@method("rate")
class OwnTemperature(Standard):
    """Every member learns a factor of its logits, at a rate of its own, and a shift of its features that only steps
    after the fourth may use."""

    rate: float = 0.1
    name: ClassVar[str] = "own temperature"
    shape: ClassVar[Any] = "independent"
    uses_features: ClassVar[bool] = True

    def auxiliary(self, key: Array, n_features: int, n_classes: int) -> Any:
        return {"factor": 1 + 0.1 * jax.random.normal(key), "shift": jnp.zeros((n_features, n_classes))}

    def auxiliary_optimiser(self) -> optax.GradientTransformation:
        return optax.chain(optax.scale_by_adam(), optax.scale_by_learning_rate(self.rate))

    def loss(self, forward: Any, batch: Batch) -> Array:
        logits, features = forward.with_features(batch.x)
        assert batch.step is not None
        shifted = logits + (batch.step >= 4) * (features @ batch.auxiliary["shift"])
        return cross_entropy(batch.auxiliary["factor"] * shifted, batch.y, batch.weight)


@method("rate")
class OwnTemperatureTogether(OwnTemperature):
    """The same as one loss over all members."""

    name: ClassVar[str] = "own temperature, together"
    shape: ClassVar[Any] = "joint"

    def loss(self, forward: Any, batch: Batch) -> Array:
        logits, features = forward.with_features(batch.x)
        assert batch.step is not None
        shift = jnp.einsum("kbf,kfc->kbc", features, batch.auxiliary["shift"])
        shifted = logits + (batch.step >= 4)[:, None, None] * shift
        return jnp.sum(cross_entropy(batch.auxiliary["factor"][:, None, None] * shifted, batch.y, batch.weight))


def started(ready) -> Run:
    return Run(ready.program, ready.lanes, ready.data)


def test_every_member_draws_its_own_whatever_its_place(assembled) -> None:
    members = [0, 1, 2], [5, 2, 0]
    some, others = (started(assembled(OwnTemperature(), each)).state.auxiliary["factor"] for each in members)
    np.testing.assert_array_equal(some[jnp.array([2, 0])], others[1:])
    assert len({*some.tolist(), *others.tolist()}) == 4


def test_they_descend_the_loss_at_their_own_rate_and_see_the_step(assembled) -> None:
    fast, still = (started(assembled(OwnTemperature(rate))) for rate in (0.1, 0.0))
    before = fast.host_state().auxiliary
    fast.advance(4)
    first_steps = np.abs(fast.host_state().auxiliary["factor"] - before["factor"])
    assert (first_steps > 0.2).all()
    assert (fast.host_state().auxiliary["shift"] == 0).all()
    fast.advance(N_STEPS)
    assert (fast.host_state().auxiliary["shift"] != 0).any()
    still.advance(N_STEPS)
    jax.tree.map(np.testing.assert_array_equal, still.host_state().auxiliary, before)
    assert fast.host_state().auxiliary["shift"].shape == (3, 8, 3)


def test_a_joint_method_trains_the_same_ones(assembled, largest_difference) -> None:
    alone, together = (started(assembled(m)) for m in (OwnTemperature(), OwnTemperatureTogether()))
    for run in (alone, together):
        run.advance(N_STEPS)
    assert largest_difference(alone.state.auxiliary, together.state.auxiliary) < 1e-5
    assert largest_difference(alone.state.params, together.state.params) < 1e-5


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize("own", [OwnTemperature(), Dice(warm_up=2, hidden=4)], ids=["temperature", "dice"])
def test_a_broken_run_goes_on_to_the_same_bits(assembled, tmp_path: Path, own: Any) -> None:
    class Unreliable(CheckpointFolder):
        def save(self, *arguments: Any, **named: Any) -> None:
            super().save(*arguments, **named)
            if arguments[3] == 5:
                raise PowerCutError

    ready = assembled(own, plan="auto")
    options = {"evaluate": Evaluate(np.asarray(ready.data.x[:4]), [5, N_STEPS])}
    unbroken = ready.train(N_STEPS, **options)
    with pytest.raises(PowerCutError):
        ready.train(N_STEPS, checkpoints=Unreliable(tmp_path, every_seconds=0), **options)
    resumed = ready.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path, resume=True), **options)
    jax.tree.map(np.testing.assert_array_equal, resumed.params, unbroken.params)


def test_those_of_a_failed_member_stand_still(assembled, largest_difference) -> None:
    ready = assembled(OwnTemperature())
    lanes = ready.lanes._replace(n_rows=jnp.array([39, 40, 39], jnp.int32))
    data = ready.data._replace(weight=ready.data.weight.at[39].set(jnp.inf))
    drawn = block_of(ready.program, lanes, data, 0).rows
    step = int(np.argmax((np.asarray(drawn[1]) == 39).any(axis=1)))
    failed, healthy = Run(ready.program, lanes, data), Run(ready.program, lanes, ready.data)
    with pytest.raises(NonFiniteLossError):
        failed.advance(step + 2)
    healthy.advance(step)
    of_member_1 = [jax.tree.map(lambda leaf: leaf[1], run.state.auxiliary) for run in (failed, healthy)]
    assert largest_difference(*of_member_1) == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(failed.host_state()))


def test_dice_fits_the_labels_and_its_members_share_less(assembled) -> None:
    alone, apart = (started(assembled(Dice(alpha, warm_up=2, hidden=4))) for alpha in (1e-9, 3.0))
    for run in (alone, apart):  # one program: alpha is traced
        run.advance(600)
    model, (x, y) = apart.program.model, (apart.data.x[:40], apart.data.y[:40])

    @jax.jit
    def redundancy(params: Any, auxiliary: Any) -> Array:
        _, features = jax.vmap(lambda p: logits_and_features(model, p, x, key=None, train=False))(params)
        z = dice.blurred(features, jax.random.split(jax.random.key(0), 3), 0.3)
        ratios = dice.log_ratios(dice.with_bounded_slopes(auxiliary), z, y, 3.0)
        return dice.over_others(dice.redundancies(*ratios)).mean()

    of_alone, of_apart = (redundancy(run.state.params, run.state.auxiliary) for run in (alone, apart))
    assert of_apart < 0.5 * of_alone
    fitted, expected = (
        (lane_probabilities(model, "float32", run.state.params, {}, x).argmax(-1) == y).mean() for run in (apart, alone)
    )
    assert fitted > expected - 0.05


@pytest.mark.parametrize("plain", [Standard(), Nu(0.1)])
def test_other_methods_have_none(assembled, plain) -> None:
    state = started(assembled(plain)).state
    assert jax.tree.leaves((state.auxiliary, state.auxiliary_state)) == []


def test_a_model_that_hides_its_features_is_told_how_to_show_them(assembled) -> None:
    network = models.mlp(3, hidden=(8,))
    with pytest.raises(InputError, match=r"nu\.Model\(init, apply, features=…\).*from_linen\(…, features_method=…\)"):
        started(assembled(OwnTemperature(), model=Model(network.init, network.apply))).advance(1)

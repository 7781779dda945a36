"""From arrays to padded data and keyed lanes; options checked at the edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble, label_key, on_device
from nu_ensembles.engine.settings import Settings, power_of_two_below
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Nu, TrainingRows

KEY = jax.random.key(0)


def rows_of(n: int, m: int = 0) -> TrainingRows:
    """n labelled rows of ones, and m unlabelled ones."""
    u = np.ones((m, 2), np.float32) if m else None
    return TrainingRows(np.ones((n, 2), np.float32), np.zeros(n, np.int32), np.ones(n, np.float32), u)


def assembled(sets: list[MemberSet], n_rows: int = 40, **settings: Any) -> Assembly:
    return assemble(models.mlp(3, hidden=(4,)), Settings(**settings), rows_of(n_rows, 6), 3, sets)


def test_data_is_padded_to_powers_of_two_and_the_true_counts_are_kept() -> None:
    rows = rows_of(3, 5)._replace(y=np.array([0, 1, 1], np.int32))
    data = on_device(rows, np.ones((2, 5), np.int32))
    assert data.x.shape == (4, 2)
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.weight.tolist() == [1, 1, 1, 0]
    assert data.x_unlabeled is not None
    assert data.targets is not None
    assert data.x_unlabeled.shape == (8, 2)
    assert data.n_unlabeled == 5
    assert data.targets.shape == (2, 8)


def test_bytes_stay_bytes_on_the_device() -> None:
    data = on_device(rows_of(2)._replace(x=np.ones((2, 4), np.uint8)), None)
    assert data.x.dtype == jnp.uint8
    assert data.x_unlabeled is data.n_unlabeled is data.targets is None


def test_a_members_key_depends_on_the_seed_and_its_number_alone() -> None:
    few, many = (assembled([MemberSet(KEY, members, Nu())]).lanes for members in ([2, 4], range(5)))
    assert (jax.random.key_data(few.key) == jax.random.key_data(many.key)[np.array([2, 4])]).all()
    assert few.member.tolist() == [2, 4]
    assert len({tuple(key) for key in jax.random.key_data(many.key).tolist()}) == 5


def test_no_member_shares_the_key_of_the_random_labels() -> None:
    lanes = assembled([MemberSet(KEY, range(100), Nu())]).lanes
    assert not (jax.random.key_data(lanes.key) == jax.random.key_data(label_key(KEY))).all(axis=1).any()


def test_every_lane_carries_its_own_hyper_parameters() -> None:
    lanes = assembled([MemberSet(KEY, range(3), Nu(0.25))], learning_rate=0.5, weight_decay=0.0).lanes
    assert lanes.method.beta.tolist() == [0.25] * 3  # pyright: ignore[reportAttributeAccessIssue]
    assert lanes.learning_rate.tolist() == [0.5] * 3
    assert lanes.weight_decay.tolist() == [0.0] * 3
    assert lanes.rows.shape == (3, 64)
    assert lanes.n_rows.tolist() == [40] * 3


def test_sets_of_similar_size_share_a_program() -> None:
    settings, model = Settings(), models.mlp(3)
    assert settings.program(model, 33, 100) == settings.program(model, 63, 127)
    assert settings.program(model, 31, 100) != settings.program(model, 33, 100)


@pytest.mark.parametrize(("n", "below"), [(1, 1), (2, 2), (3, 2), (64, 64), (100, 64)])
def test_the_power_of_two_at_or_below(n: int, below: int) -> None:
    assert power_of_two_below(n) == below


def test_unlabelled_images_are_augmented_only_on_request() -> None:
    def shift(key: Any, images: Any) -> Any:
        return images

    programs = [Settings(augment=shift, augment_unlabeled=on).program(models.mlp(3), 8, 8) for on in (False, True)]
    assert [(p.augment, p.augment_unlabeled) for p in programs] == [(shift, None), (shift, shift)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, not 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number of at least 1, not 2.5"),
        ({"unlabeled_batch_size": 0}, "unlabeled_batch_size must be a whole number of at least 1, not 0"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, not 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, not nan"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of at least 0, not -1.0"),
        ({"dtype": "float16"}, "Unknown dtype of training 'float16'. Did you mean 'float"),
        ({"dtype": "float64"}, 'dtype="float64" needs jax.config.update'),
        ({"plan": "shard"}, "Unknown plan 'shard'. Did you mean 'sharded'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        Settings(**options)

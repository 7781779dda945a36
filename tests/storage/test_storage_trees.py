"""Trees of arrays survive the way through flat names, and a tree that does not fit says where."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage import (
    flatten,
    flatten_like,
    load_arrays,
    save_arrays,
    unflatten,
    unflatten_like,
)

names = st.text(st.characters(exclude_characters="/"), max_size=3)
nested = st.dictionaries(
    names,
    st.recursive(
        st.integers(0, 9).map(np.asarray),
        lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@given(nested)
def test_nested_dicts_of_arrays_come_back_the_same(tree):
    assert unflatten(flatten(tree)) == tree


def test_names_are_paths_and_lists_come_back_as_dicts():
    tree = {"params": {"dense": [np.zeros(2), (np.ones(3),)]}, "steps": 4}
    flat = flatten(tree)
    assert list(flat) == ["params/dense/0", "params/dense/1/0", "steps"]
    assert flat["steps"] == np.asarray(4)
    assert set(unflatten(flat)["params"]["dense"]) == {"0", "1"}


def test_empty_groups_leave_no_names():
    assert flatten({"state": {}, "list": []}) == {}
    assert unflatten({}) == {}


@pytest.mark.parametrize("key", ["a/b", 1])
def test_keys_that_would_not_come_back_are_refused(key):
    with pytest.raises(InputError, match="cannot be saved: use text without '/'"):
        flatten({key: np.zeros(1)})


def test_a_key_with_a_slash_is_refused_in_a_pytree_too():
    with pytest.raises(InputError, match=r"The name 'a/b' in a tree of arrays cannot be saved"):
        flatten_like({"a/b": np.zeros(1)})


def test_a_lone_array_is_no_tree():
    with pytest.raises(InputError, match="give a single array a name"):
        flatten(np.zeros(3))


@pytest.mark.parametrize("order", [["a", "a/b"], ["a/b", "a"], ["a", "a/b/c"]])
def test_names_that_contradict_each_other_are_found(order):
    with pytest.raises(DamagedFileError, match="is both an array and a group of arrays"):
        unflatten({name: np.zeros(1) for name in order})


def training_state(seed=0):
    params = {"dense": {"kernel": jnp.full((2, 3), 0.5), "bias": jnp.zeros(3, jnp.bfloat16)}}
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.inject_hyperparams(optax.adamw)(learning_rate=0.1))
    return {"params": params, "optimiser": optimiser.init(params), "key": jax.random.key(seed), "step": 7}


def test_an_optimiser_state_with_keys_survives_the_file(tmp_path):
    state = training_state(seed=3)
    path = tmp_path / "state.safetensors"
    flat = load_arrays(path, save_arrays(path, flatten_like(state)))
    back = unflatten_like(flat, training_state(seed=0))
    assert jax.tree.structure(back) == jax.tree.structure(state)
    assert back["step"] == 7
    assert jax.random.bits(back["key"]) == jax.random.bits(jax.random.key(3))
    for found, expected in zip(jax.tree.leaves(back["optimiser"]), jax.tree.leaves(state["optimiser"]), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_template_of_shapes_is_enough():
    def make():
        return {"w": jnp.ones((2, 2)), "keys": jax.random.split(jax.random.key(1), 3)}

    back = unflatten_like(flatten_like(make()), jax.eval_shape(make))
    assert back["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    np.testing.assert_array_equal(jax.random.key_data(back["keys"]), jax.random.key_data(make()["keys"]))


@pytest.mark.parametrize(
    ("saved", "complaint"),
    [
        ({"a": np.zeros(2, "f4")}, r"'b' is missing"),
        ({"a": np.zeros(2, "f4"), "b": np.zeros((), "i4"), "c": np.zeros(1)}, r"'c' is not expected"),
        ({"a": np.zeros(3, "f4"), "b": np.zeros((), "i4")}, r"'a' is float32\[3\] instead of float32\[2\]"),
        ({"a": np.zeros(2, "f4"), "b": np.zeros((), "i8")}, r"'b' is int64\[\] instead of int32\[\]"),
        (
            {c: np.zeros(1) for c in "vwxyz"},
            r"'a' is missing; 'b' is missing; 'v' is not expected and 4 more",
        ),
    ],
)
def test_a_tree_that_does_not_fit_its_template_says_where(saved, complaint):
    template = {"a": np.zeros(2, "f4"), "b": np.zeros((), "i4")}
    with pytest.raises(DamagedFileError, match=rf"The checkpoint x does not fit here \({complaint}\): use the"):
        unflatten_like(saved, template, "The checkpoint x")

"""Arrays come back bit for bit, and a damaged file is named before any of it is used."""

import hashlib

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage import load_arrays, save_arrays

dtypes = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", dtypes)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_every_type_and_shape_comes_back_the_same(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    sha256 = save_arrays(tmp_path / "a.safetensors", {"array": array})
    back = load_arrays(tmp_path / "a.safetensors", sha256)["array"]
    assert back.dtype == array.dtype
    assert back.shape == shape
    assert back.tobytes() == array.tobytes()


@given(arrays_of.arrays(np.float32, arrays_of.array_shapes(min_dims=0, max_dims=4), elements=st.floats(width=32)))
def test_floats_come_back_bit_for_bit_however_they_lie_in_memory(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("arrays") / "a.safetensors"
    views = {"plain": array, "transposed": array.T, "reversed": array[..., ::-1] if array.ndim else array}
    back = load_arrays(path, save_arrays(path, views))
    for name, view in views.items():
        np.testing.assert_array_equal(back[name], view)


def test_big_endian_and_jax_arrays_are_accepted(tmp_path):
    path = tmp_path / "a.safetensors"
    sha256 = save_arrays(path, {"big": np.array([1.0, 2.0], ">f4"), "jax": jnp.array(0.5, jnp.bfloat16)})
    back = load_arrays(path, sha256)
    assert back["big"].tolist() == [1.0, 2.0]
    assert back["jax"] == ml_dtypes.bfloat16(0.5)


def test_loaded_arrays_can_be_changed(tmp_path):
    path = tmp_path / "a.safetensors"
    back = load_arrays(path, save_arrays(path, {"a": np.zeros(2)}))
    back["a"] += 1
    assert back["a"].tolist() == [1.0, 1.0]


def test_the_checksum_is_that_of_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    sha256 = save_arrays(path, {"a": np.arange(5)})
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([None]), np.array([1j]), np.zeros(1, "i4,f4")])
def test_arrays_that_are_not_numbers_are_refused_by_name(tmp_path, array):
    with pytest.raises(InputError, match=r"The array 'names' of type .* cannot be saved"):
        save_arrays(tmp_path / "a.safetensors", {"names": array})
    assert list(tmp_path.iterdir()) == []


def test_any_flipped_byte_or_cut_is_found_by_the_checksum(tmp_path):
    path = tmp_path / "a.safetensors"
    sha256 = save_arrays(path, {"a": np.arange(3, dtype=np.int16)})
    whole = path.read_bytes()
    damaged = [whole[:-1], whole + b"\0", b""]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"a\.safetensors does not match its checksum: it was altered"):
            load_arrays(path, sha256)


@pytest.mark.parametrize("content", [b"", b"x" * 7, b"\x02" + b"\0" * 7 + b"[]", b"not a safetensors file at all"])
def test_without_a_checksum_the_form_is_still_checked(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"a\.safetensors is not a complete safetensors file"):
        load_arrays(path, None)


def test_without_a_checksum_a_cut_file_is_still_found(tmp_path):
    path = tmp_path / "a.safetensors"
    save_arrays(path, {"a": np.arange(3)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match="not a complete safetensors file"):
        load_arrays(path, None)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DamagedFileError, match=r"a\.safetensors is missing"):
        load_arrays(tmp_path / "a.safetensors", None)

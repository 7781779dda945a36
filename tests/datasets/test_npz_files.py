"""npz files: conventional names, no pickles, and a sentence for each way in which a file can be wrong."""

import io
import re
import zipfile

import numpy as np
import pytest
import scipy.sparse

from nu_ensembles.datasets import read_table
from nu_ensembles.errors import DamagedFileError, InputError

rows = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def save(tmp_path):
    def to_file(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return to_file


@pytest.mark.parametrize(("X", "y"), [("X", "y"), ("x", "y"), ("images", "labels"), ("embeddings", "labels")])
def test_rows_and_labels_have_conventional_names_or_are_the_only_ones(save, X, y):
    table = read_table(save(**{X: rows, y: np.array([0, 1, 1])}))
    np.testing.assert_array_equal(table.X, rows)
    assert table.y is not None
    assert table.y.tolist() == [0, 1, 1]
    assert (table.kind, table.feature_names) == ("table", None)


def test_the_target_names_the_labels(save):
    table = read_table(save(X=rows, y=np.zeros(3), coarse=np.array(["a", "b", "c"])), target="coarse")
    assert table.y is not None
    assert table.y.tolist() == ["a", "b", "c"]


def test_labels_can_be_ignored_or_absent(save):
    assert read_table(save(X=rows, y=np.zeros(3)), ignore=["y"]).y is None
    assert read_table(save(U=rows)).y is None


@pytest.mark.parametrize(
    ("X", "kind", "shape", "dtype"),
    [
        (np.zeros((3, 2), np.int8), "table", (3, 2), np.float32),
        (np.zeros((3, 2), np.int32), "table", (3, 2), np.float64),
        (np.zeros((3, 2), np.float32), "table", (3, 2), np.float32),
        (np.zeros((3, 8, 9, 3), np.uint8), "images", (3, 8, 9, 3), np.uint8),
        (np.zeros((3, 8, 9), np.uint8), "images", (3, 8, 9, 1), np.uint8),
        (np.zeros((3, 8, 9, 1), np.float32), "images", (3, 8, 9, 1), np.float32),
    ],
)
def test_the_shape_tells_tables_from_images(save, X, kind, shape, dtype):
    table = read_table(save(X=X))
    assert (table.kind, table.X.shape, table.X.dtype) == (kind, shape, dtype)


@pytest.mark.parametrize(
    ("y", "labels"),
    [(np.array([b"caf\xc3\xa9", b"b", b"c"]), ["café", "b", "c"]), (np.array([[1], [2], [3]]), [1, 2, 3])],
)
def test_labels_may_be_bytes_or_a_column(save, y, labels):
    found = read_table(save(X=rows, y=y)).y
    assert found is not None
    assert found.tolist() == labels


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"X": rows, "y": np.zeros(2)}, {}, "has 3 rows but 2 labels: give one label for each row"),
        ({"X": rows, "y": np.eye(3)}, {}, "labels 'y' of FILE have shape (3, 3)"),
        ({"X": rows, "y": np.zeros(3, "M8[s]")}, {}, "and type datetime64[s]: give one class for each row"),
        (
            {"X": rows, "label": [1, 2, 3]},
            {"target": "labl"},
            "no target array 'labl': name one of 'X', 'label'",
        ),
        ({"a": rows, "b": rows}, {}, "no array named X among 'a', 'b': call the array of rows X"),
        ({"X": np.array(["a"])}, {}, "The array 'X' of FILE has type <U1: give rows of numbers"),
        ({"X": np.zeros(5)}, {}, "has shape (5,): give a table [rows, columns] or images [rows,"),
        ({"X": np.zeros((0, 4))}, {}, "FILE has no rows of data"),
        ({}, {}, "FILE has no rows of data"),
        ({"X": rows}, {"columns": ["a", "b", "c"]}, "has 2 columns but the model was trained with 3"),
        ({"X": rows, "y": np.array([None, 1, 2])}, {}, "The array 'y' of FILE holds Python objects, which"),
        ({"X": np.array([[1, "a"]], object)}, {}, "The array 'X' of FILE holds Python objects, which"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(save, arrays, options, message):
    path = save(**arrays)
    with pytest.raises(InputError, match=re.escape(message.replace("FILE", str(path)))) as caught:
        read_table(path, **options)
    assert str(path) in str(caught.value)


def test_object_arrays_that_are_not_asked_for_do_no_harm(save):
    assert read_table(save(X=rows, notes=np.array([{"by": "me"}]))).X.shape == (3, 2)


def test_a_file_cut_off_anywhere_is_damaged(save):
    path = save(X=rows, y=np.arange(3))
    whole = path.read_bytes()
    for end in range(1, len(whole), 37):
        path.write_bytes(whole[:end])
        with pytest.raises(DamagedFileError, match=r"data\.npz is not a complete npz file: save it again"):
            read_table(path)


def test_a_flipped_byte_in_the_data_is_found_by_the_archives_own_checksum(save):
    path = save(X=rows)
    whole = path.read_bytes()
    at = whole.index(rows.tobytes()) + 9
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(DamagedFileError, match="not a complete npz file"):
        read_table(path)


@pytest.mark.parametrize("content", [b"X", b"\x80\x04K\x01.", b"PK\x03\x04"])
def test_a_foreign_file_with_that_ending_is_damaged(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"data\.npz is not a complete npz file"):
        read_table(tmp_path / "data.npz")


def test_a_single_array_under_that_ending_says_how_to_save_it(tmp_path):
    with open(tmp_path / "data.npz", "wb") as file:
        np.save(file, rows)
    with pytest.raises(InputError, match=r"data\.npz holds a single array: save it with numpy\.savez\("):
        read_table(tmp_path / "data.npz")


def test_an_array_that_unpacks_to_hundreds_of_times_its_size_is_refused_unread(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((80_000, 1000), np.uint8))
    with pytest.raises(InputError, match=r"unpacks to \d+ times its size"):
        read_table(tmp_path / "bomb.npz")


def test_a_header_that_claims_more_numbers_than_there_are_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13, 1)})
    with zipfile.ZipFile(tmp_path / "rows.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    with pytest.raises(DamagedFileError, match="not a complete npz file"):
        read_table(tmp_path / "rows.npz")


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_matrix_is_read_as_scipy_writes_it_with_labels_beside_it(tmp_path, save, form):
    alone = tmp_path / "alone.npz"
    scipy.sparse.save_npz(alone, scipy.sparse.csr_array(rows).asformat(form))
    assert read_table(alone).X.tolist() == rows.tolist()
    with np.load(alone) as parts:
        table = read_table(save(**parts, y=np.array(["a", "b", "a"])))
    assert table.y is not None
    assert (table.kind, table.X.tolist(), table.y.tolist()) == ("table", rows.tolist(), ["a", "b", "a"])


def test_a_sparse_matrix_of_another_format_or_that_was_altered_is_refused(tmp_path, save):
    path = tmp_path / "diagonal.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(rows))
    with np.load(path) as file:
        parts = dict(file)
    with pytest.raises(InputError, match=r"sparse matrix in the format b'bsr': save it as CSR, with X.tocsr\(\)"):
        read_table(save(**{**parts, "format": np.array(b"bsr")}))
    with pytest.raises(DamagedFileError, match="is not a complete npz file"):
        read_table(save(**{**parts, "indices": parts["indices"] + 7}))

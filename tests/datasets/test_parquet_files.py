"""parquet files: tables, hub images, and a sentence for each way in which a file can be wrong."""

import builtins
import datetime
import decimal
import io
import re

import numpy as np
import pytest
from PIL import Image

from nu_ensembles.datasets import parquet_files, read_table
from nu_ensembles.errors import DamagedFileError, InputError, MissingExtraError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def save(tmp_path):
    def to_file(columns, names=None):
        path = tmp_path / "data.parquet"
        names = list(columns) if names is None else names
        pq.write_table(pa.Table.from_arrays([pa.array(v) for v in columns.values()], names=names), path)
        return path

    return to_file


def encoded(pixels, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, kind, lossless=True)
    return {"bytes": file.getvalue(), "path": None}


def test_every_kind_of_number_becomes_a_feature_and_empty_cells_nan(save):
    path = save(
        {
            "int": [1, 2],
            "float": [0.5, None],
            "bool": [True, False],
            "decimal": [decimal.Decimal("1.25"), decimal.Decimal("-2")],
            "species": ["cat", "dog"],
        }
    )
    table = read_table(path, target="species")
    np.testing.assert_array_equal(table.X, [[1, 0.5, 1, 1.25], [2, np.nan, 0, -2]])
    assert table.X.dtype == np.float64
    assert table.feature_names == ("int", "float", "bool", "decimal")
    assert table.y is not None
    assert table.y.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (pa.array([3, 1], pa.uint8()), "i"),
        (pa.array([True, False]), "b"),
        (pa.array([1.0, 2.5]), "f"),
        (pa.array(["b", "a"], pa.large_string()), "U"),
        (pa.array(["b", "a"]).dictionary_encode(), "U"),
    ],
)
def test_labels_keep_their_kind(save, labels, kind):
    y = read_table(save({"x": [1, 2], "y": labels}), target="y").y
    assert y is not None
    assert y.dtype.kind == kind
    assert y.tolist() == labels.to_pylist()


def test_columns_are_matched_by_name_and_the_index_of_pandas_is_no_feature(save):
    path = save({"b": [2], "a": [1], "y": ["?"], "__index_level_0__": [99]})
    table = read_table(path, columns=["a", "b"], ignore=["y"])
    assert table.X.tolist() == [[1, 2]]
    assert table.y is None


def test_text_and_dates_make_a_table_of_columns_and_rows_may_have_no_label(save):
    path = save({"day": [datetime.date(2020, 1, 1), None], "city": ["Oslo", None], "id": [7, 8], "y": ["x", None]})
    table = read_table(path, target="y", keep=["id"])
    assert [(part.name, part.kind, part.words()) for part in table.X.parts] == [
        ("day", "date", ["2020-01-01", None]),
        ("city", "category", ["Oslo", None]),
    ]
    assert table.y is not None
    assert table.y.tolist() == ["x", None]
    assert table.kept["id"].tolist() == ["7", "8"]


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_hub_images_decode_to_the_pixels_that_were_encoded(save, kind):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), dtype=np.uint8)
    path = save({"img": [encoded(p, kind) for p in pixels], "fine_label": [7, 8], "coarse_label": [0, 1]})
    table = read_table(path, target="fine_label")
    np.testing.assert_array_equal(table.X, pixels)
    assert (table.X.dtype, table.kind, table.feature_names) == (np.uint8, "images", None)
    assert table.y is not None
    assert table.y.tolist() == [7, 8]
    assert read_table(path).y is None


def test_the_hubs_label_column_is_the_target_of_images_unless_ignored(save):
    path = save({"image": [encoded(np.zeros((2, 2)))], "label": [3]})
    assert read_table(path).y == [3]
    assert read_table(path, ignore=["label"]).y is None
    assert read_table(path).X.shape == (1, 2, 2, 1)
    assert read_table(path, image_size=(3, 4), channels=3).X.shape == (1, 3, 4, 3)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"a": [1], "b": [[1, 2]]}, {}, "The column 'b' of FILE has the type List(Int64); turn it into numbers"),
        (
            {"a": [1], "label": [1]},
            {"target": "lable"},
            "has no target column 'lable': name one of 'a', 'label'",
        ),
        ({"a": [1], "y": [[1, 2]]}, {"target": "y"}, "The target 'y' of FILE is of type list"),
        ({"a": pa.array([], pa.int64())}, {}, "FILE has no rows of data"),
        ({"a": [1]}, {"columns": ["b"]}, "lacks the column(s) 'b' of the training rows (it has 'a'"),
        (
            {"p": [encoded([[0]])], "q": [encoded([[0]])]},
            {},
            "has several columns of images (p, q): drop all but one",
        ),
        ({"p": [encoded([[0]]), {"bytes": b"x", "path": None}]}, {}, "The image row 2 of FILE is unreadable"),
        ({"p": [encoded([[0]]), None]}, {}, "The image row 2 of FILE is unreadable"),
        (
            {"p": [encoded([[0]]), encoded([[0, 0]])]},
            {},
            "row 2 of FILE is 1×2 pixels but row 1 of FILE is 1×1",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(save, columns, options, message):
    path = save(columns)
    with pytest.raises(InputError, match=re.escape(message.replace("FILE", str(path)))) as caught:
        read_table(path, **options)
    assert str(path) in str(caught.value)


def test_columns_of_one_name_are_refused(save):
    with pytest.raises(InputError, match=r"data\.parquet has more than one column named 'a'"):
        read_table(save({"a": [1], "b": [2]}, names=["a", "a"]))


def test_a_file_cut_off_anywhere_is_damaged(save):
    path = save({"a": [1, 2, 3], "b": [4, 5, 6]})
    whole = path.read_bytes()
    for content in [*(whole[:end] for end in range(1, len(whole), 97)), whole[4:], whole[:-1]]:
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"data\.parquet is not a complete parquet file: save it again"):
            read_table(path)


def test_a_flipped_byte_in_a_page_with_a_checksum_is_found(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(
        pa.table({"a": np.arange(100.0)}),
        path,
        compression=None,
        use_dictionary=False,
        write_page_checksum=True,
    )
    whole = path.read_bytes()
    at = whole.index(np.arange(100.0).tobytes()) + 9
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(DamagedFileError, match="not a complete parquet file"):
        read_table(path)


def test_without_pyarrow_the_extra_is_named(save, monkeypatch):
    path, real = save({"a": [1]}), builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"Reading parquet files needs .* 'nu-ensembles\[parquet\]'"):
        read_table(path)


def test_a_small_file_of_endless_runs_is_refused_unread(save, monkeypatch):
    path = save({"a": np.zeros(200_000), "b": np.zeros(200_000)})
    assert read_table(path).X.shape == (200_000, 2)
    monkeypatch.setattr(parquet_files, "MOST_REPEATED", 1000)
    with pytest.raises(InputError, match=r"data\.parquet unpacks to \d+ times its size: give fewer rows"):
        read_table(path)


def test_whole_numbers_beyond_what_arrow_casts_become_floats(tmp_path):
    numbers = pa.array([2**63 + 2048, 1, None, 2**53 + 2], pa.uint64())
    pq.write_table(pa.table({"a": numbers, "b": numbers.fill_null(0), "y": [0, 1, 0, 1]}), tmp_path / "rows.parquet")
    X = read_table(tmp_path / "rows.parquet", "y").X
    assert X[:, 1].tolist() == [2.0**63 + 2048, 1.0, 0.0, 2.0**53 + 2]
    assert np.array_equal(X[:, 0], [2.0**63 + 2048, 1.0, np.nan, 2.0**53 + 2], equal_nan=True)

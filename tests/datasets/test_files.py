"""The door to all formats: what is common to them, and what is said before a file is even opened."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from nu_ensembles.datasets import read_table
from nu_ensembles.errors import DamagedFileError, InputError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.csv", "FILE does not exist: check the path"),
        ("data.cvs", "Unknown file type of FILE: '.cvs'. Did you mean '.csv'? Known: .csv, .csv.gz, .npz"),
        ("data", "Unknown file type of FILE: ''."),
        ("photo.PNG", "FILE is a single image: give the folder that holds it"),
    ],
)
def test_a_path_that_cannot_be_read_says_why(tmp_path, name, message):
    path = tmp_path / name
    if not name.startswith("absent"):
        path.write_text("x")
    with pytest.raises(InputError, match=re.escape(message.replace("FILE", str(path)))):
        read_table(str(path))


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_an_empty_file_is_named(tmp_path, ending):
    (tmp_path / f"data.{ending}").touch()
    with pytest.raises(DamagedFileError, match=rf"data\.{ending} is empty \(0 bytes\): save or copy it again"):
        read_table(tmp_path / f"data.{ending}")


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text("a\n1\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"data\.csv cannot be read: check its permissions"):
        read_table(tmp_path / "data.csv")


def test_a_single_name_in_the_place_of_a_list_is_refused(tmp_path):
    with pytest.raises(InputError, match="drop must be a list \\(text each\\), not 'id'"):
        read_table(tmp_path, drop="id")
    with pytest.raises(InputError, match="ignore must be a list \\(text each\\), not 'id'"):
        read_table(tmp_path, ignore="id")


def test_endings_may_be_in_capitals(tmp_path):
    (tmp_path / "DATA.CSV").write_text("a\n1\n")
    assert read_table(tmp_path / "DATA.CSV").X.tolist() == [[1.0]]


def test_the_same_rows_in_every_tabular_format_read_the_same(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = np.array([[0.1, -2.0], [3.5, 1e-9]]), np.array(["no", "yes"])
    (tmp_path / "t.csv").write_text("a,b,y\n0.1,-2.0,no\n3.5,1e-9,yes\n")
    np.savez(tmp_path / "t.npz", X=X, y=y)
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y.tolist()}), tmp_path / "t.parquet")
    for ending in ("csv", "npz", "parquet"):
        table = read_table(tmp_path / f"t.{ending}", target="y")
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.y, y)


def test_the_same_images_in_every_format_read_the_same(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
    for label, image in zip("ab", images, strict=True):
        (tmp_path / "by-class" / label).mkdir(parents=True)
        Image.fromarray(image).save(tmp_path / "by-class" / label / "0.png")
    cells = [{"bytes": (tmp_path / f"by-class/{label}/0.png").read_bytes(), "path": "0.png"} for label in "ab"]
    pq.write_table(pa.table({"img": cells, "label": ["a", "b"]}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", images=images, labels=np.array(["a", "b"]))
    for name in ("by-class", "t.npz", "t.parquet"):
        table = read_table(tmp_path / name)
        assert table.kind == "images"
        np.testing.assert_array_equal(table.X, images)
        np.testing.assert_array_equal(table.y, ["a", "b"])


def test_importing_the_data_sets_loads_no_package_that_only_some_files_need():
    heavy = "{'PIL', 'jax', 'pyarrow', 'safetensors', 'sklearn', 'yaml'}"
    program = f"import sys, nu_ensembles.datasets, nu_ensembles.storage; print({heavy} & set(sys.modules))"
    # Run apart from the package's own __init__, whose imports are not the concern of this test.
    bare = f"import types, sys; m = types.ModuleType('nu_ensembles'); m.__path__ = [{package_folder()!r}]; "
    output = subprocess.check_output([sys.executable, "-c", f"{bare} sys.modules['nu_ensembles'] = m; {program}"])
    assert output.decode().strip() == "set()"


def package_folder():
    import nu_ensembles.errors

    return os.path.dirname(nu_ensembles.errors.__file__)

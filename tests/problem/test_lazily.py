"""Unlabelled rows in files: encoded, scaled and drawn to the bits of the same rows in memory, read once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.datasets import open_rows, row_store
from nu_ensembles.ensemble import into_folder
from nu_ensembles.errors import InputError
from nu_ensembles.problem import lazily, prepare
from nu_ensembles.problem.preprocessing import Standardisation
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import encoding

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
feather = pytest.importorskip("pyarrow.feather")

N_ROWS = (3000, 1234, 1)


def frame(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    gappy = rng.normal(size=n)
    gappy[rng.random(n) < 0.1] = np.nan
    days = rng.integers(0, 10**13, n).astype("timedelta64[us]")
    return pa.table(
        {
            "gappy": gappy,
            "single": rng.normal(size=n).astype(np.float32),
            "whole": rng.integers(0, 5, n),
            "zeros": (rng.random(n) < 0.1) * rng.random(n),
            "text day": np.datetime_as_string(np.datetime64("2024-01-01", "D") + rng.integers(0, 99, n)),
            "level": rng.choice(["x", "y", "zz", "rare"], n, p=[0.5, 0.3, 0.19, 0.01]),
            "day": np.datetime64("2024-01-01", "us") + days,
        }
    )


X, Y = frame(60, 0), np.arange(60) % 3


@pytest.fixture(autouse=True)
def always_lazy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazily, "FEW_BYTES", 0)
    monkeypatch.setattr(into_folder, "ROWS_A_PART", 1024)
    monkeypatch.setattr(into_folder, "ROWS_AT_ONCE", 512)
    monkeypatch.setenv(row_store.FOLDER, str(tmp_path_factory.mktemp("stored")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for number, n in enumerate(N_ROWS):
        pq.write_table(frame(n, number + 1), folder / f"{number}.parquet", row_group_size=1000)
    return folder


@pytest.fixture(scope="module")
def whole(files: Path) -> Any:
    return pa.concat_tables([pq.read_table(file) for file in sorted(files.iterdir())])


@pytest.fixture(scope="module")
def ensemble(whole: Any) -> nu.Ensemble:
    return nu.fit("mlp", X, Y, whole, n_members=2, steps=10)


# The second sample is so small that the middle of some column is missed, and looked for once more.
@pytest.mark.parametrize("sample", [1 << 17, 150])
def test_tables_in_files_become_the_bits_of_tables_in_memory(
    files: Path, whole: Any, sample: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "SAMPLE", sample)
    here, there = (prepare(X, Y, u, standardize=None) for u in (whole, f"{files}/*.parquet"))
    assert isinstance(there.x_unlabeled, LazyRows)
    assert here.encoding == there.encoding
    assert here.standardisation is not None
    assert here.standardisation.same_as(there.standardisation)
    assert np.array_equal(here.x, there.x)
    assert np.array_equal(here.x_unlabeled, there.x_unlabeled[:])
    assert np.array_equal(here.x_unlabeled[[7, 4000, 7]], there.x_unlabeled[[7, 4000, 7]])


def test_a_second_fit_reads_no_file_again(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(X, Y, str(files), standardize=None)
    for of_reading in (row_store.RowStore.in_parts, Standardisation.fit):
        monkeypatch.setattr(f"{of_reading.__module__}.{of_reading.__qualname__}", lambda *_, **__: pytest.fail("read"))
    again = prepare(X, Y, str(files), standardize=None)
    assert np.array_equal(first.x_unlabeled[:], again.x_unlabeled[:])
    os.utime(files / "0.parquet", ns=(1, 1))  # other files, as far as anybody can tell
    assert prepare_fingerprint(files) != first.x_unlabeled.fingerprint


def prepare_fingerprint(files: Path) -> str:
    return open_rows(files).fingerprint


def test_training_and_prediction_give_the_bits_of_rows_in_memory(
    files: Path, whole: Any, ensemble: nu.Ensemble
) -> None:
    lazy = nu.fit("mlp", X, Y, files, n_members=2, steps=10)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, lazy.params, ensemble.params)))
    expected = ensemble.predict_proba(whole)
    assert np.array_equal(ensemble.predict_proba(str(files)), expected)
    assert np.array_equal(ensemble.predict_proba(ds.dataset(files)), expected)


@pytest.mark.slow
def test_a_classifier_takes_files_wherever_it_takes_rows(files: Path, whole: Any) -> None:
    def fitted(u: Any) -> Any:
        return nu.NuEnsembleClassifier(2, random_state=0, max_iter=4, cv=2, betas=[0.0, 0.01]).fit(X, Y, u)

    here, there = fitted(whole), fitted(files)
    assert (here.verdict_, here.shift_) == (there.verdict_, there.shift_)
    assert np.array_equal(here.predict_proba(X), there.predict_proba(X))
    assert np.array_equal(here.predict_proba(whole), there.predict_proba(str(files)))


@pytest.mark.parametrize("gaps", [False, True])
def test_a_mapped_array_is_prepared_as_one_in_memory(gaps: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(5000, 7)).astype(np.float32) + 2
    if gaps:
        u[5, 3] = np.nan
    np.save(tmp_path / "u.npy", u)
    x = u[100:140]
    for source in (tmp_path / "u.npy", np.load(tmp_path / "u.npy", mmap_mode="r")):
        here, there = (prepare(x, Y[:40], rows, standardize=True) for rows in (u, source))
        assert here.standardisation is not None
        assert here.standardisation.same_as(there.standardisation)
        assert np.array_equal(here.x_unlabeled, there.x_unlabeled[:])
    part = np.load(tmp_path / "u.npy", mmap_mode="r")[1000:1200]
    assert np.array_equal(open_rows(part)[:], u[1000:1200])


def test_images_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 1), np.uint8)
    for number, each in enumerate(pixels):
        image.fromarray(each[..., 0]).save(tmp_path / f"{number}.png")
    rows = open_rows(tmp_path)
    assert np.array_equal(rows.take([3, 8, 3]), pixels[[3, 8, 3]])
    monkeypatch.setattr("nu_ensembles.datasets.array_rows.decode_images", lambda *_: pytest.fail("decoded"))
    assert np.array_equal(rows[:], pixels)


def test_rows_of_little_room_are_read_into_memory(files: Path, whole: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazily, "FEW_BYTES", 1 << 20)
    found = prepare(X, Y, files, standardize=None).x_unlabeled
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, prepare(X, Y, whole, standardize=None).x_unlabeled)


class TestPredictionsIntoAFolder:
    def test_rows_are_written_in_order_with_what_is_kept(
        self, ensemble: nu.Ensemble, files: Path, whole: Any, tmp_path: Path
    ) -> None:
        found = ensemble.predict_into(files, tmp_path / "out", keep=["level"])
        assert found == {"n_rows": 4235, "n_parts": 5, "n_earlier": 0}
        written = pq.read_table(tmp_path / "out")
        assert written["row"].to_pylist() == list(range(4235))
        assert written["level"].to_pylist() == whole["level"].to_pylist()
        expected = ensemble.predict_proba(whole)
        np.testing.assert_allclose(written["p_1"].to_numpy(), expected[:, 1], atol=1e-6)
        assert written["prediction"].to_pylist() == ensemble.classes[expected.argmax(axis=1)].tolist()

    def test_a_killed_run_goes_on_without_a_row_twice_or_missing(
        self, ensemble: nu.Ensemble, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ensemble.predict_into(files, tmp_path / "whole")
        written = []

        def torn(path: Path, data: bytes) -> None:
            if len(written) == 2:
                path.with_name(f".{path.name}.0123abcd.partial").write_bytes(data[:9])
                raise KeyboardInterrupt
            written.extend([path] * path.name.startswith("part"))
            path.write_bytes(data)

        with monkeypatch.context() as patch:
            patch.setattr(into_folder.storage, "write_bytes", torn)
            with pytest.raises(KeyboardInterrupt):
                ensemble.predict_into(files, tmp_path / "out")
        with pytest.raises(InputError, match="exists; resume the predictions"):
            ensemble.predict_into(files, tmp_path / "out")
        (tmp_path / "out" / "part-00000.parquet").write_bytes(b"cut off")
        assert ensemble.predict_into(files, tmp_path / "out", resume=True)["n_earlier"] == 1
        assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "whole"))
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {into_folder.INDEX, *(f"part-0000{number}.parquet" for number in range(5))}

    def test_others_are_not_gone_on_with(self, ensemble: nu.Ensemble, files: Path, tmp_path: Path) -> None:
        ensemble.predict_into(files, tmp_path / "out")
        with pytest.raises(InputError, match="belongs to other data or settings"):
            ensemble.predict_into(files / "0.parquet", tmp_path / "out", resume=True)


class TestBadInput:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        pq.write_table(frame(5, 0), tmp_path / "a.parquet")
        return tmp_path

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (
                lambda t: t.drop(["level"]),
                r"b\.parquet lacks the column 'level' of .*a\.parquet; give files of the same",
            ),
            (lambda t: t.append_column("new", t["whole"]), r"b\.parquet has a column 'new' that .*a\.parquet has not"),
            (lambda t: t.set_column(0, "gappy", pa.array(["q"] * 5)), "'gappy' holds text in .* and numbers in"),
        ],
    )
    def test_files_with_other_columns_are_named(self, folder: Path, change: Any, sentence: str) -> None:
        pq.write_table(change(frame(5, 1)), folder / "b.parquet")
        with pytest.raises(InputError, match=sentence):
            prepare(X, Y, folder)

    def test_a_file_that_disappears_is_named_and_nothing_is_left_behind(self, folder: Path) -> None:
        rows = open_rows(folder)
        (folder / "a.parquet").rename(folder / "elsewhere")
        with pytest.raises(InputError, match=r"a\.parquet cannot be read any more .*put it back"):
            prepare(X, Y, rows)
        (folder / "elsewhere").rename(folder / "a.parquet")
        assert prepare(X, Y, rows).n_unlabeled == 5

    def test_a_damaged_file_is_named(self, folder: Path) -> None:
        (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-9])
        with pytest.raises(InputError, match=r"b\.parquet is not a complete file"):
            open_rows(folder)

    def test_what_is_not_there_or_no_rows_is_said(self, folder: Path) -> None:
        for source, sentence in (("no/*.parquet", "no file has a name like it"), (folder / "x", "does not exist")):
            with pytest.raises(InputError, match=sentence):
                open_rows(source)
        (folder / "c.csv").write_text("a\n1\n")
        with pytest.raises(InputError, match=r"holds \.csv files"):
            open_rows(folder / "c.csv")

    def test_infinity_is_found_before_training(self, tmp_path: Path) -> None:
        u = np.ones((70_000, 2), np.float32)
        u[66_000, 1] = np.inf
        np.save(tmp_path / "u.npy", u)
        with pytest.raises(InputError, match=r"contains infinity: 1 value\(s\) not finite, the first in row 66000"):
            prepare(u[:60], Y, tmp_path / "u.npy")

    def test_a_method_that_wants_all_rows_at_once_is_refused(self, folder: Path) -> None:
        for method in ("agree_to_disagree", "self_training"):
            with pytest.raises(InputError, match=r"predicts all unlabelled rows on its way, .* such as 'nu'"):
                nu.fit("mlp", X, Y, folder, method, n_members=2, steps=1)

    def test_too_small_a_disk_is_said_before_it_is_full(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_store.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
        with pytest.raises(InputError, match="make room, or name a folder on a larger disk in NU_ENSEMBLES_ROWS"):
            prepare(X, Y, folder)

"""Bad input on the command line: exit code 2, one sentence that says what to do, and nothing written."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pytest

from nu_ensembles import storage


def refused(desk, outcome_of, *says):
    """The command line fails as it should and leaves the folder as it was."""
    before = desk.listing()
    outcome = outcome_of()
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert outcome.err.startswith("nu-ensembles: error: ")
    assert outcome.err.count("\n") == 1
    for words in says:
        assert words in outcome.err
    assert desk.listing() == before


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("train", np.inf, "train.csv contains infinity"),
        ("unlabeled", -np.inf, "unlabeled.csv contains infinity"),
    ],
)
def test_values_that_are_not_finite_are_counted_and_located(desk, name, value, says):
    X, y = desk.rows(24, 0)
    X[[4, 9], 1] = value
    desk.write(f"{name}.csv", X, y if name == "train" else None)
    refused(desk, desk.fit, says, "2 value(s) not finite", "row 5 of the column 'width'", "remove them")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (("height", "width", "age"), "lacks the column(s) 'weight' of the training rows (it has 'age'"),
        (("height", "width"), "lacks the column(s) 'weight'"),
    ],
)
def test_unlabelled_rows_with_other_columns(desk, columns, says):
    desk.write("unlabeled.csv", desk.rows(40, 1)[0][:, : len(columns)], columns=columns)
    refused(desk, desk.fit, "unlabeled.csv", says)


def test_unlabelled_rows_of_another_width_without_names(desk):
    np.savez(desk.folder / "train.npz", X=desk.rows(24, 0)[0], y=desk.rows(24, 0)[1])
    np.savez(desk.folder / "u.npz", X=np.zeros((5, 4)))
    arguments = ("fit", desk.folder / "train.npz", "--unlabeled", desk.folder / "u.npz", "--out", desk.out)
    refused(desk, lambda: desk.run(*arguments), "u.npz has rows of shape (4,)", "(3,)")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["cat"] * 24, "one class only ('cat'); a classifier needs at least two classes"),
        ([0.5, 1.0] * 12, "y holds fractions (row 0: 0.5)"),
    ],
)
def test_labels_that_are_no_classes(desk, labels, says):
    desk.write("train.csv", desk.rows(24, 0)[0], labels)
    refused(desk, desk.fit, "train.csv", says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--members", "0"), ["n_members must be a whole number of at least 1, not 0"]),
        (("--model", "lenett"), ["Unknown model 'lenett'", "Did you mean 'lenet'?"]),
        (("--method", "standart", "--beta", "auto"), ["Unknown method 'standart'", "Did you mean 'standard'?"]),
        (("--method", "standard"), ["--beta belongs to --method nu"]),
        (("--beta", "-0.1"), ["beta", "at least 0", "-0.1"]),
        (("--beta", "nan"), ["beta", "at least 0", "nan"]),
        (("--beta", "large"), ["Invalid value for --beta", '"large"']),
        (("--beta", "auto", "--cv", "1"), ["cv must be a whole number of at least 2"]),
        (("--max-iter", "0"), ["max_iter must be a whole number of at least 1"]),
        (("--batch-size", "0"), ["batch_size must be a whole number of at least 1"]),
        (("--learning-rate", "0"), ["learning_rate must be a number above 0"]),
        (("--hidden", "8,x"), ["Invalid value for --hidden", "give whole numbers, as in 64,64"]),
        (("--image-size", "1x2x3"), ["Invalid value for --image-size", "HEIGHTxWIDTH"]),
        (("--plan", "sequentiel"), ["sequentiel", "sequential"]),
        (("--labels", "sharde"), ["Invalid value", 'Did you mean "shared"?']),
        (("--hiden", "8"), ["Unknown option: --hiden", "Did you mean --hidden?"]),
        (("--drop", "wieght"), ["no column 'wieght' to drop", "did you mean 'weight'?"]),
        (("--target", "kinds"), ["no target column 'kinds'", "did you mean 'kind'?"]),
        (("--resume",), ["--resume needs --run-folder"]),
        (("--method-options.labels", "shared"), ["leave --method-options out"]),
    ],
)
def test_options_that_cannot_be_used(desk, options, says):
    refused(desk, lambda: desk.fit(*options), *says)


def test_a_missing_target(desk):
    arguments = ("fit", desk.train, "--drop", "kind", "--out", desk.out)
    refused(desk, lambda: desk.run(*arguments), "train.csv has no labels", "--target")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("absent.csv", None, "absent.csv does not exist"),
        ("empty.csv", b"", "empty.csv is empty (0 bytes)"),
        ("cut.csv", b'a,kind\n1,"cat', "quotation mark that is never closed"),
        ("ragged.csv", b"a,b,kind\n1,2,cat\n3,dog\n", "Row 2 of"),
        ("words.csv", b"a,kind\n1,cat\ntall,dog\n", "The column 'a' of"),
        ("zeros.csv", b"a,kind\n1,chat\n2,\xe9\x00\n", "is not text: save it as csv in UTF-8"),
        ("page.csv", b"<!DOCTYPE html><html>", "is not what its ending .csv says but a web page: download the file"),
        ("zipped.csv", b"\x1f\x8b\x08", "but compressed with gzip: give it the ending .csv.gz"),
        ("cut.csv.gz", b"\x1f\x8b\x08\x00\x00", "is not a complete gzip file"),
        ("twice.csv", b"a,a,kind\n1,2,cat\n", "more than one column named 'a'"),
        ("data.xlsx", b"PK", "Unknown file type of"),
        ("cut.npz", b"PK\x03\x04 cut off", "is not a complete npz file"),
        ("cut.parquet", b"PAR1 cut off", "cut.parquet"),
    ],
)
def test_files_that_cannot_be_read(desk, name, content, says):
    path = desk.folder / name
    if content is not None:
        path.write_bytes(content)
    for arguments in (("fit", path, "--target", "kind", "--out", desk.out), ("check", path, "--target", "kind")):
        refused(desk, lambda a=arguments: desk.run(*a), says)
    refused(desk, lambda: desk.fit("--unlabeled", path), name)


def test_arrays_of_python_objects_are_never_loaded(desk):
    path = desk.folder / "objects.npz"
    np.savez(path, X=np.array([{"a": 1}, None], dtype=object), y=np.array([0, 1]))
    refused(desk, lambda: desk.run("fit", path, "--out", desk.out), "holds Python objects")


def test_an_npz_file_that_was_cut_off(desk):
    path = desk.folder / "train.npz"
    np.savez(path, X=desk.rows(24, 0)[0], y=np.arange(24) % 2)
    path.write_bytes(path.read_bytes()[:-40])
    refused(desk, lambda: desk.run("fit", path, "--out", desk.out), "is not a complete npz file")


def test_an_output_folder_that_exists_is_refused_before_the_data_are_read(desk):
    desk.out.mkdir()
    desk.train.unlink()
    refused(desk, desk.fit, f"The folder {desk.out} exists already")


def test_an_output_that_could_not_be_written_is_refused_before_the_data_are_read(desk):
    desk.train.unlink()
    inside_a_file = desk.unlabeled / "model"
    refused(desk, lambda: desk.fit("--out", inside_a_file), "is no writable folder")


def test_a_run_folder_that_exists_is_refused_without_resume(desk):
    (desk.folder / "run").mkdir()
    (desk.folder / "run" / "notes.txt").write_text("mine")
    refused(desk, lambda: desk.fit("--run-folder", desk.folder / "run"), "exists; resume the run in it")


def test_a_run_folder_that_is_a_file(desk):
    refused(desk, lambda: desk.fit("--run-folder", desk.test), "test.csv")


def test_validation_rows_with_an_unknown_label(desk):
    other = desk.write("other.csv", desk.rows(4, 3)[0], ["cat", "dog", "bird", "cat"])
    refused(desk, lambda: desk.fit("--beta", "auto", "--validation", other), "'bird'")


# A saved model that is not what was saved.


def flipped(model):
    weights = model / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(bytes(content))


def altered_manifest(model):
    manifest = model / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"cat"', '"rat"'))


def newer(model):
    manifest = json.loads((model / "manifest.json").read_text())["content"]
    storage.write_sealed_json(model / "manifest.json", {**manifest, "format": 99, "package": "nu-ensembles 9.0"})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flipped, "does not match its checksum"),
        (altered_manifest, "does not match its checksum"),
        (lambda model: (model / "weights.safetensors").unlink(), "weights.safetensors is missing"),
        (lambda model: (model / "manifest.json").unlink(), "manifest.json is missing"),
        (newer, "was saved by a newer version (nu-ensembles 9.0)"),
        (shutil.rmtree, "the folder does not exist"),
    ],
)
def test_a_damaged_or_newer_model(desk, trained, damage, says):
    model = desk.folder / "damaged"
    shutil.copytree(trained, model)
    damage(model)
    refused(desk, lambda: desk.run("predict", model, desk.test, "--out", desk.folder / "p.csv"), says)
    refused(desk, lambda: desk.run("evaluate", model, desk.test), says)


def test_predictions_never_replace_a_file(desk, trained):
    taken = desk.folder / "taken.csv"
    taken.write_text("mine")
    refused(
        desk, lambda: desk.run("predict", "no-model", desk.test, "--out", taken), f"The file {taken} exists already"
    )


@pytest.mark.parametrize(("name", "says"), [("p.xlsx", "Unknown file type"), ("no/p.csv", "does not exist")])
def test_predictions_need_a_known_ending_and_an_existing_folder(desk, trained, name, says):
    refused(desk, lambda: desk.run("predict", trained, desk.test, "--out", desk.folder / name), says)


def test_rows_to_predict_that_lack_a_column(desk, trained):
    desk.write("new.csv", desk.rows(5, 3)[0][:, :2], columns=("height", "width"))
    refused(desk, lambda: desk.run("predict", trained, desk.folder / "new.csv"), "lacks the column(s) 'weight'")


def test_rows_to_evaluate_with_an_unknown_label(desk, trained):
    desk.write("new.csv", desk.rows(2, 3)[0], ["cat", "bird"])
    refused(desk, lambda: desk.run("evaluate", trained, desk.folder / "new.csv"), "'bird'", "not among the classes")


def test_rows_to_evaluate_without_labels(desk, trained):
    refused(desk, lambda: desk.run("evaluate", trained, desk.unlabeled), "no target column 'kind'")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hiden: 8\n", ["Unknown option in", "'hiden'", "Did you mean 'hidden'?"]),
        ("beta: [1\n", ["is not valid YAML (line 2"]),
        ("- beta\n", ["must be a list of options such as"]),
        ("members: many\n", ["Invalid value for [members]", '"many"']),
        ("members: [1, 2]\n", ["Invalid value for [members]"]),
        ("config: other.yaml\n", ["Unknown option in", "'config'"]),
    ],
)
def test_a_configuration_that_cannot_be_used(desk, text, says):
    config = desk.folder / "fit.yaml"
    config.write_text(text)
    refused(desk, lambda: desk.run("fit", desk.train, "--config", config, "--out", desk.out), *says)


def test_a_configuration_that_is_missing(desk):
    refused(desk, lambda: desk.run("fit", desk.train, "--config", desk.folder / "no.yaml"), "no.yaml is missing")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fti"], 'Unknown command "fti". Did you mean "fit"?'),
        (["fit"], "requires an argument"),
        (["predict", "model"], "requires an argument"),
        (["evaluate", "model", "data", "more"], "more"),
    ],
)
def test_a_command_line_that_makes_no_sense(desk, arguments, says):
    refused(desk, lambda: desk.run(*arguments), says)


def test_a_missing_extra_is_named(desk, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = desk.folder / "p.parquet"
    refused(desk, lambda: desk.run("predict", trained, desk.test, "--out", out), "pip install 'nu-ensembles[parquet]'")


def test_a_folder_that_may_not_be_written_is_refused_before_the_data_are_read(desk, monkeypatch):
    desk.train.unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(desk, desk.fit, "is no writable folder")


def test_validation_rows_are_checked_before_a_run_folder_is_made(desk):
    other = desk.write("other.csv", desk.rows(4, 3)[0][:, :2], ["cat", "dog"] * 2, columns=("height", "width"))
    options = ("--beta", "auto", "--validation", other, "--run-folder", desk.folder / "run")
    refused(desk, lambda: desk.fit(*options), "other.csv lacks the column(s) 'weight'")

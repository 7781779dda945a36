"""The commands `study` and `report`, and the studies' own main for machines without the command line's packages."""

import json
import shutil

import pytest

from nu_ensembles import storage
from nu_ensembles.cli.report import report
from nu_ensembles.cli.study import study
from nu_ensembles.errors import InputError
from nu_ensembles_studies.__main__ import main
from nu_ensembles_studies.pages.study_page import how_it_was_run
from nu_ensembles_studies.run.reading import read_results

WHAT = {"datasets": ("digits",), "models": ("mlp",), "seeds": 2, "quick": True}


@pytest.fixture
def folder(small_study, tmp_path):
    return shutil.copytree(small_study, tmp_path / "study")


def test_a_finished_study_is_not_trained_again_and_prints_one_json_object(folder, capsys):
    study("table1", **WHAT, out=folder, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["n_done"], printed["n_left"], printed["n_failed"]) == (4, 0, 0)
    assert printed["results"].endswith("results.json")
    assert len(printed["headline"]) == 3


def test_report_draws_the_page_again_from_a_folder_or_a_file(folder, capsys):
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    report(folder)
    assert (folder / "report.html").read_bytes() == before
    report(folder / "results.json", out=folder / "other.html")
    assert (folder / "other.html").read_bytes() == before
    assert "other.html" in capsys.readouterr().out


def test_the_plain_main_takes_the_same_options(folder, capsys):
    options = ["--datasets", "digits", "--models", "mlp", "--seeds", "2", "--quick", "--verbose", "0", "--no-page"]
    assert main(["table1", *options, "--out", str(folder), "--export", str(folder / "x.json")]) == 0
    assert "4 cells done" in capsys.readouterr().out
    assert json.loads((folder / "x.json").read_text())["study"] == "table1"


def test_a_study_starts_from_the_file_of_an_earlier_one(folder, tmp_path, capsys):
    study("table1", **WHAT, out=tmp_path / "more", start_from=folder / "results.json", time_limit=0.0, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["n_done"], printed["n_left"]) == (4, 0)
    assert (tmp_path / "more" / "results.json").read_bytes().count(b'"seed"') == 4


def test_a_study_starts_from_another_one_that_trained_the_same(folder, tmp_path, capsys):
    more = tmp_path / "corruptions.json"
    entry = json.loads((folder / "results.json").read_text())
    for cell in entry["cells"]:
        cell["cell"]["also"] = ["corruptions"]
        for scores in cell["measured"]["epochs"].values():
            scores["corruptions"] = []
    more.write_text(json.dumps({**entry, "study": "corruptions", "format": 1}))  # which has no seal
    study("table1", **WHAT, out=tmp_path / "table1", start_from=more, time_limit=0.0, json=True)
    assert json.loads(capsys.readouterr().out)["n_done"] == 4
    taken, original = (
        json.loads((each / "results.json").read_text())["cells"] for each in (tmp_path / "table1", folder)
    )
    assert taken == original  # without what table1 does not ask for


def test_a_study_does_not_start_from_one_that_trained_something_else(folder, tmp_path):
    with pytest.raises(InputError, match="those of 'table1' and hold nothing that 'cost' asks for"):
        study("cost", **WHAT, out=tmp_path / "more", start_from=folder)
    assert not (tmp_path / "more").exists()


def test_two_processes_do_not_write_to_one_folder(tmp_path, folder):
    with storage.alone_in(folder), pytest.raises(InputError, match=f"Another process is writing to {folder}"):
        study("table1", **WHAT, out=folder)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file: choose another --out"):
        study("table1", **WHAT, out=tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocols": ("publish",)}, "Unknown protocol 'publish'"),
        ({"methods": ("mu",)}, "Unknown method 'mu'"),
        ({"models": ("resnet",)}, "Unknown model 'resnet'"),
        ({"datasets": ("cifar",)}, "Unknown data set 'cifar'"),
        ({"seeds": 0}, "at least 1"),
        ({"first_seed": -3}, "first_seed cannot be -3"),
        ({"cells_at_once": -1}, "at least 1"),
        ({"datasets": ("wine",), "protocols": ("selected",)}, "Wine has no validation rows"),
        ({"models": ("wrn-10-1",), "protocols": ("published",)}, "Nothing is to be trained"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_written(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        study("table1", **{**WHAT, **options}, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_names_that_a_study_does_not_look_at_are_checked_too(tmp_path):
    with pytest.raises(InputError, match="Unknown model 'nosuch'"):
        study("auto-safety", datasets=("digits",), models=("nosuch",), quick=True, out=tmp_path / "new")
    with pytest.raises(InputError, match="Wine has no validation rows"):
        study("methods", datasets=("wine",), n=(30,), quick=True, out=tmp_path / "new")


def test_missing_data_are_no_failure_and_what_was_trained_is_written(tmp_path, capsys):
    both = {**WHAT, "datasets": ("digits", "mnist"), "protocols": ("matched",), "seeds": 1, "quiet": True}
    with pytest.raises(InputError, match=r"mnist is read from its original files: put .* into .*/data/mnist\.$"):
        study("table1", **both, methods=("standard",), data_dir=tmp_path / "data", out=tmp_path / "new")
    found = read_results(tmp_path / "new" / "results.json")
    assert [record.cell.dataset for record in found.declared()] == ["digits"]
    assert not found.failures()
    assert (tmp_path / "new" / "report.html").exists()


def test_results_of_another_maker_do_not_get_into_a_folder(folder, tmp_path):
    entry = json.loads((folder / "results.json").read_text())
    entry["makers"][0]["jax"] = "0.0.1"
    entry["format"] = 1  # which has no seal
    (tmp_path / "old.json").write_text(json.dumps(entry))
    with pytest.raises(InputError, match=r"old.json holds cells made by .*jax 0.0.1.*--mixed"):
        study("table1", **WHAT, out=tmp_path / "new", start_from=tmp_path / "old.json")
    assert not (tmp_path / "new").exists()


def test_cells_of_another_maker_in_the_folder_stop_a_study_unless_a_mixture_is_asked_for(folder, capsys):
    (path, *_) = sorted((folder / "cells").iterdir())
    entry = storage.read_sealed_json(path, "The cell")
    storage.write_sealed_json(path, {**entry, "maker": {**entry["maker"], "jax": "0.0.1"}})
    before = (folder / "results.json").read_bytes()
    with pytest.raises(InputError, match=r"jax 0\.0\.1.*choose another --out, or add --mixed"):
        study("table1", **WHAT, out=folder)
    assert (folder / "results.json").read_bytes() == before
    study("table1", **WHAT, out=folder, mixed=True, quiet=True)
    assert "4 cells done" in capsys.readouterr().out


def test_only_what_is_asked_for_is_taken_over(folder, tmp_path, capsys):
    few = {**WHAT, "seeds": 1, "methods": ("nu",)}
    study("table1", **few, out=tmp_path / "new", start_from=folder, time_limit=0.0, quiet=True)
    assert len(list((tmp_path / "new" / "cells").iterdir())) == 1


def test_the_page_counts_what_was_asked_for_and_not_what_else_is_in_the_folder(folder, capsys):
    study("table1", **{**WHAT, "seeds": 1}, out=folder, quiet=True)
    results = read_results(folder)
    assert (len(results.records), len(results.declared())) == (4, 2)
    assert how_it_was_run(results).settings["Cells"].startswith("2, ")
    assert how_it_was_run(results).settings["Members"] == "3"


@pytest.mark.parametrize("content", ["{}", "[]", '{"study": "table1", "options": {"newer": 1}, "commands": []}'])
def test_a_description_that_cannot_be_read_is_named(folder, content):
    (folder / "study.json").write_text(content)
    with pytest.raises(InputError, match=r"study\.json|holds no results that this version can read"):
        report(folder)


def test_a_file_of_results_that_lacks_something_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"study": "table1", "cells": []}')
    with pytest.raises(InputError, match="holds no results of a study"):
        report(tmp_path / "x.json")


def test_an_unknown_study_is_named_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'table1'"):
        study("tabel1", out=tmp_path / "new")
    with pytest.raises(InputError, match="does not exist"):
        report(tmp_path / "nowhere")

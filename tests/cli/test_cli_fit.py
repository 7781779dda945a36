"""`nu-ensembles fit`: what it prints, saves and takes from a configuration file."""

from __future__ import annotations

import inspect
import json
from typing import get_args

import numpy as np
import pytest
from PIL import Image

import nu_ensembles as nu
from nu_ensembles.cli.fit import build_classifier
from nu_ensembles.cli.options import CalibrationName, MethodOptions, NetworkOptions, RunOptions, TrainingOptions
from nu_ensembles.estimator import wanted
from nu_ensembles.methods import LabelScheme


def test_fit_says_what_it_did_and_saves_a_model_that_predicts(desk):
    outcome = desk.fit()
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Saved in {desk.out}" in outcome.out
    assert "2 members on 24 labelled and 40 unlabelled rows, 2 classes, beta 0.01" in outcome.out
    ensemble = nu.Ensemble.load(desk.out)
    assert ensemble.classes.tolist() == ["cat", "dog"]
    assert ensemble.predict_proba(desk.rows(3, 5)[0]).shape == (3, 2)


def test_the_saved_model_remembers_how_its_data_were_read(desk):
    X, y = desk.rows(24, 0)
    desk.write("train.csv", np.c_[np.arange(24), X], y, ("id", "height", "width", "weight"))
    assert desk.fit("--drop", "id").code == 0
    assert nu.Ensemble.load(desk.out).training["data"] == {
        "feature_names": ["height", "width", "weight"],
        "target": "kind",
        "dropped": ["id"],
        "image_size": None,
        "channels": None,
        "kept": [],
        "column_types": None,
    }


def test_a_companion_is_saved_with_the_model_and_scored_with_it(desk):
    result = json.loads(desk.fit("--companion", "forest", "--cv", "2", "--json").out)
    assert result["companion"]["kind"] == "forest"
    ensemble, (x, _) = nu.Ensemble.load(desk.out), desk.rows(30, 2)
    scored = json.loads(desk.run("evaluate", desk.out, desk.test, "--target", "kind", "--json").out)["metrics"]
    confidence = ensemble.predict_proba(x).max(axis=1).mean()
    predicted = json.loads(desk.run("predict", desk.out, desk.test, "--json").out)
    assert predicted["mean_confidence"] == pytest.approx(confidence, abs=1e-6)
    own = nu.metrics.evaluate(ensemble.predict_proba(x), (np.arange(30) % 2))
    assert scored["nll"] == pytest.approx(own["nll"], abs=1e-6)
    assert scored["member_nll"] != own["member_nll"]


def test_fit_prints_one_json_object_and_nothing_else_on_standard_output(desk):
    outcome = desk.fit("--json")
    result = json.loads(outcome.out)
    assert result["command"] == "fit"
    assert (result["beta"], result["n_steps"], result["n_members"]) == (0.01, 5, 2)
    assert result["classes"] == ["cat", "dog"]
    # Nothing was held out, so there is no temperature: null, not nan.
    assert result["temperature"] is None
    assert "NaN" not in outcome.out


def test_auto_reports_the_search_behind_its_choice(desk):
    small = ("--betas", "0.001,0.01", "--cv", "2", "--members", "2", "--hidden", "8", "--max-iter", "8", "--quiet")
    result = json.loads(desk.fit("--beta", "auto", *small, "--json").out)
    assert {0.0, 0.01} <= set(result["search"]["beta"]) <= {0.0, 0.001, 0.01}
    assert result["beta"] in result["search"]["beta"]
    assert result["n_steps"] in result["search"]["n_steps"]
    assert f"{result['n_steps']} steps" in result["verdict"]


def test_a_validation_file_takes_the_place_of_the_folds(desk):
    small = ("--betas", "0.01", "--members", "2", "--hidden", "8", "--max-iter", "8", "--quiet")
    outcome = desk.fit("--beta", "auto", "--validation", desk.test, *small, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["search"] is not None


def test_labels_in_the_unlabelled_file_are_ignored(desk):
    assert desk.fit("--unlabeled", desk.test, "--json").code == 0
    assert nu.Ensemble.load(desk.out).training["n_unlabelled"] == 30


def test_without_unlabelled_rows_a_warning_says_that_the_ensemble_is_a_standard_one(desk):
    outcome = desk.run("fit", desk.train, "--target", "kind", "--beta", "0.01", "--out", desk.out, *desk.quick)
    assert outcome.code == 0
    assert outcome.err.startswith("nu-ensembles: warning: There is no unlabelled data")
    assert outcome.err.count("\n") == 1


def test_an_unlabelled_file_without_rows_falls_back_with_the_same_warning(desk):
    outcome = desk.fit("--unlabeled", desk.write("empty.csv", np.empty((0, 3))))
    assert outcome.code == 0
    assert "falls back to a standard ensemble" in outcome.err
    assert nu.Ensemble.load(desk.out).training["method"] == "standard"


def test_images_are_read_from_folders_and_resized(desk):
    photos = desk.folder / "photos"
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (photos / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(rng.integers(0, 256, (6, 5), dtype=np.uint8)).save(photos / name / f"{number}.png")
    arguments = (photos, "--unlabeled", photos, "--image-size", "4x3", "--beta", "0.1", "--out", desk.out)
    assert desk.run("fit", *arguments, *desk.quick).code == 0
    ensemble = nu.Ensemble.load(desk.out)
    assert ensemble.row_shape == (4, 3, 1)
    assert (ensemble.training["data"]["image_size"], ensemble.training["data"]["channels"]) == ([4, 3], 1)
    shown = json.loads(desk.run("predict", desk.out, photos, "--json").out)
    assert shown["rows"][:2] == ["cat/0.png", "cat/1.png"]


def test_options_come_from_a_yaml_file_and_the_command_line_overrides_them(desk):
    config = desk.folder / "fit.yaml"
    config.write_text(
        f"train: {desk.train}\nunlabeled: {desk.unlabeled}\ntarget: kind\nbeta: 1e-2\nmembers: 3\nhidden: [6, 5]\n"
        "max-iter: 5\nlearning_rate: 0.01\nclass_weight: null\nquiet: true\ndrop: [weight]\n"
    )
    outcome = desk.run("fit", "--config", config, "--members", "2", "--out", desk.out, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert (result["n_members"], result["beta"], result["n_steps"]) == (2, 0.01, 5)
    assert result["model"]["options"]["hidden"] == [6, 5]
    assert nu.Ensemble.load(desk.out).training["data"]["feature_names"] == ["height", "width"]


def test_a_training_that_diverges_ends_with_exit_code_1_and_advice(desk):
    outcome = desk.fit("--learning-rate", "1e38")
    assert outcome.code == 1
    assert outcome.err.startswith("nu-ensembles: error: The loss of member 0 was not finite at step")
    assert "Lower the learning rate" in outcome.err
    assert not desk.out.exists()


def test_the_defaults_are_those_of_the_estimator():
    built = build_classifier(MethodOptions(), NetworkOptions(), TrainingOptions(), RunOptions(), verbose=0)
    ours, theirs = built.get_params(), nu.NuEnsembleClassifier(random_state=0).get_params()
    # 0, the standard ensemble, is always among what is tried.
    assert {0.0, *ours.pop("betas")} == {0.0, *theirs.pop("betas")}
    assert ours == theirs


def test_any_other_method_goes_to_the_general_estimator():
    method = MethodOptions(method="standard", early_stopping=True)
    built = build_classifier(method, NetworkOptions(hidden=(8,)), TrainingOptions(), RunOptions(), verbose=0)
    assert type(built) is nu.EnsembleClassifier
    assert (built.method, built.early_stopping, built.model_options) == ("standard", True, {"hidden": (8,)})


def test_the_label_schemes_offered_are_those_of_the_method():
    offered = inspect.get_annotations(MethodOptions, eval_str=True)["labels"]
    assert get_args(offered) == get_args(LabelScheme)


def test_the_calibrations_offered_are_those_that_a_search_can_fit():
    assert get_args(CalibrationName) == wanted.NAMES


@pytest.mark.parametrize(("scaling", "meaning"), [("always", True), ("never", False), ("auto", "auto")])
def test_scaling_can_be_forced(scaling, meaning):
    network = NetworkOptions(standardize=scaling)
    built = build_classifier(MethodOptions(), network, TrainingOptions(), RunOptions(), verbose=0)
    assert built.standardize == meaning

"""`--method` and `--method-options`: text becomes what a method's fields ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nu_ensembles as nu
from nu_ensembles.cli.method_options import typed_options
from nu_ensembles.errors import InputError


@pytest.mark.parametrize(
    ("method", "name", "pieces", "value"),
    [
        ("hyper_deep", "pool_size", ["12"], 12),
        ("hyper_deep", "pool-size", ["none"], None),
        ("hyper_deep", "learning_rates", ["0.001,0.01"], (0.001, 0.01)),
        ("hyper_deep", "learning-rates", ["0.001", "0.01"], (0.001, 0.01)),
        ("hyper_deep", "dropouts", ["0.1"], (0.1,)),
        ("hyper_deep", "stratify", ["True"], True),
        ("hyper_deep", "refit", ["false"], False),
        ("self_training", "eras", ["3"], 3),
        ("mc_dropout", "dropout", ["0.2"], 0.2),
        ("swag", "learning_rate", ["1e-3"], 0.001),
        ("nu", "labels", ["shared"], "shared"),
        ("nu", "beta", ["1"], 1.0),
    ],
)
def test_options_get_the_type_of_their_field(method: str, name: str, pieces: list[str], value: Any) -> None:
    (found,) = typed_options(method, {name: pieces}).items()
    assert found == (name.replace("-", "_"), value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("pool_size", "many", "--method-options.pool_size takes a whole number or none, not 'many'"),
        ("pool_size", "1.5", "takes a whole number or none, not '1.5'"),
        ("learning_rates", "0.1,x", "--method-options.learning_rates takes numbers, as in 0.001,0.01 or none, not"),
        ("stratify", "2", "--method-options.stratify takes true or false, not '2'"),
    ],
)
def test_text_of_another_type_is_refused(name: str, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        typed_options("hyper_deep", {name: [text]})


def test_what_no_method_has_is_left_for_the_method_to_refuse() -> None:
    assert typed_options("hyper_deep", {"pools": ["3"]}) == {"pools": "3"}
    assert typed_options("hyper_deeper", {"pool_size": ["3"]}) == {"pool_size": "3"}


def test_a_procedure_is_fitted_from_a_configuration_file(desk):
    config = desk.folder / "fit.yaml"
    config.write_text(
        "method: hyper_deep\nmethod_options:\n  learning_rates: [0.001, 0.01]\n  dropouts: 0.0\n  pool_size: 2\n"
    )
    given = ("--target", "kind", "--out", desk.out, *desk.quick)
    outcome = desk.run("fit", desk.train, "--config", config, *given, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["method"] == "hyper_deep"
    saved = nu.Ensemble.load(desk.out).training
    assert saved["hyper_parameters"]["learning_rates"] == [0.001, 0.01]
    assert len(saved["procedure"]["picked"]) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--method", "self_training"), "'self_training' needs unlabelled rows, and there are none"),
        (("--method", "hyper_dep"), "Unknown method 'hyper_dep'. Did you mean 'hyper_deep'?"),
        (("--method", "hyper_deep", "--beta", "0.1"), "--beta belongs to --method nu; leave it out for 'hyper_deep'"),
        (
            ("--method", "swag", "--method-options.lst", "0.3"),
            "Unknown option of method 'swag' 'lst'. Did you mean 'last'?",
        ),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_sentence(desk, options, says):
    outcome = desk.run("fit", desk.train, "--target", "kind", "--out", desk.out, *desk.quick, *options)
    assert outcome.code == 2
    assert says in outcome.err
    assert outcome.err.count("\n") == 1
    assert not desk.out.exists()

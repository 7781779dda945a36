"""`doctor` and `profile`: one JSON object or text, and sentences for what cannot be."""

from __future__ import annotations

import json

import pytest

from nu_ensembles.cli.doctor import _size

TINY = ("--members", 3, "--batch-size", 8, "--steps", 2)


def test_doctor_tells_devices_versions_cache_and_plans(desk, monkeypatch):
    from nu_ensembles.diagnostics import machine

    monkeypatch.setattr(machine, "NETWORKS", {"mlp": machine.NETWORKS["mlp"]})
    outcome = desk.run("doctor", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert found["backend"] == "cpu"
    assert found["devices"][0]["free_bytes"] > 0
    assert found["versions"]["jax"]
    assert found["compilation_cache"]["state"] == "on"
    assert [(plan["network"], plan["plan"]["name"]) for plan in found["plans"]] == [("mlp", "vectorised")]
    monkeypatch.setenv("COLUMNS", "300")
    text = desk.run("doctor", "--members", 7).out
    assert "7 members of" in text
    assert "NU_ENSEMBLES_COMPILATION_CACHE=off" in text
    assert "all 7 members fit" in text


@pytest.mark.parametrize(
    ("n_bytes", "expected"), [(0, "0 bytes"), (999, "999 bytes"), (31_700_000, "32 MB"), (12_640_000_000, "12.6 GB")]
)
def test_sizes_are_readable(n_bytes, expected):
    assert _size(n_bytes) == expected


def test_profile_shows_time_compilation_classes_and_kernels(desk):
    outcome = desk.run("profile", "--model", "mlp", "--features", 4, *TINY, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert found["ms"] > 0
    assert found["compile_s"] > 0
    assert found["by_kind_ms"]["matrix product"] > 0
    assert found["kernels"][0]["ms"] >= found["kernels"][-1]["ms"]
    assert found["plan"]["name"] == "vectorised"
    text = desk.run("profile", "--model", "mlp", "--features", 4, *TINY).out
    assert "3 members of mlp, nu, 4 rows: " in text
    assert "ms a step, vectorised; compiled in" in text
    assert "matrix product" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "lennet"), "Unknown model 'lennet'. Did you mean 'lenet'?"),
        (("--method", "swag"), "'swag' is a procedure of several trainings; profile a loss, such as nu or standard."),
        (("--features", 4, "--image-size", "8x8"), "Rows are images or a table"),
        (("--model", "lenet", "--features", 4), "LeNet takes images"),
        (("--members", 0), "members must be a whole number of at least 1, not 0."),
        (("--features", 0), "features must be a whole number of at least 1, not 0."),
        (("--plan", "fast"), "Unknown plan 'fast'."),
    ],
)
def test_what_cannot_be_profiled_is_said_in_one_sentence(desk, options, sentence):
    outcome = desk.run("profile", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1

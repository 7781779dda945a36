"""The rule of `benchmarks/will_nu_help.py` that foretells what ν comes to, on made-up runs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nu_ensembles.tuning.advice import NO_FORECAST

FILE = Path(__file__).parents[2] / "benchmarks" / "will_nu_help.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("will_nu_help", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up(telling: float) -> list[dict[str, Any]]:
    """Twelve data sets of ten runs, whose outcome is `telling` times a feature, and noise."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(120):
        features = {name: float(rng.normal()) for name in ("a", "b", "c")}
        outcome = telling * features["a"] + 0.1 * rng.normal()
        place, level = f"set{number // 10}.same", "likely" if features["a"] < 0 else "unlikely"
        found.append({"place": place, "level": level, "features": features, "outcomes": {"auto": outcome}})
    return found


def test_a_feature_that_tells_has_skill_on_data_sets_that_were_left_out(benchmark: ModuleType) -> None:
    found = benchmark.skill(made_up(0.3), "auto", ("a", "b", "c"))
    assert found["has_skill"]
    assert found["explained"] > 0.8
    # Half of the runs gain 0.3 times the mean of half a normal distribution.
    assert found["rules"]["rule"]["outcome"]["mean"] == pytest.approx(-0.3 * 0.4, abs=0.03)
    assert found["rules"]["check"]["less_best_constant"]["mean"] < -0.05


def test_features_that_tell_nothing_have_none(benchmark: ModuleType) -> None:
    found = benchmark.skill(made_up(0.0), "auto", ("a", "b", "c"))
    assert not found["has_skill"]
    assert found["explained"] < 0.1


def test_a_data_set_has_no_part_in_what_is_foretold_of_it(benchmark: ModuleType) -> None:
    runs = made_up(0.3)
    before = benchmark.left_out(runs, "auto", ("a", "b"))
    for each in runs[:10]:
        each["outcomes"]["auto"] += 0.5
    after = benchmark.left_out(runs, "auto", ("a", "b"))
    np.testing.assert_array_equal(after[:10], before[:10])
    assert (after[10:] != before[10:]).all()


def test_never_costs_nothing_and_always_is_the_mean_over_data_sets(benchmark: ModuleType) -> None:
    runs = [
        {"place": place, "features": {"a": 0.0}, "outcomes": {"auto": value}}
        for place, value in (("x.same", 0.1), ("x.cluster", 0.3), ("y.same", -0.4), ("z.same", 5.0))
    ]
    found = benchmark.skill(runs, "auto", ("a",))
    assert found["constants"]["never"]["mean"] == 0
    # Each data set once, and no outcome beyond 1: (0.2 - 0.4 + 1) / 3.
    assert found["constants"]["always"]["mean"] == pytest.approx(0.8 / 3)
    assert found["best_constant"] == "never"


def test_check_says_of_itself_what_the_results_say() -> None:
    """`check` says that no rule, and not its own levels, did better than a constant: so it stands in the results."""
    found = json.loads((FILE.parents[1] / "results" / "will-nu-help.json").read_text(encoding="utf-8"))
    tables = [each for part in found["skill"].values() for each in part]
    assert len(tables) == 6
    assert not any(each["has_skill"] for each in tables)
    of_check = [each["rules"]["check"]["less_best_constant"] for each in tables if "check" in each["rules"]]
    assert len(of_check) == 4
    assert all(each["mean"] + each["half_width"] >= 0 for each in of_check)
    assert "no rule on such figures did clearly better" in NO_FORECAST

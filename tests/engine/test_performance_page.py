"""The performance page shows what the benchmarks' files hold, and says so where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from makers import performance, speed
from nu_ensembles_studies.results.intervals import student_interval

DOCS = Path(__file__).parents[2] / "docs"


TABLES = performance.MAKER.tables
GPU = {"backend": "gpu", "device": "NVIDIA H200", "cores": 16, "versions": {"jax": "0.11.2"}}


def test_the_page_includes_every_table() -> None:
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    included = set(re.findall(r"^```\{include\} generated/(.*)$", text, re.MULTILINE))
    assert included == {*TABLES, *speed.MAKER.tables, "whole-trainings.md"}


def test_the_readme_says_how_much_faster_than_a_loop_as_measured() -> None:
    rows = json.loads((DOCS.parent / "results" / "peers-h200.json").read_text())["rows"]
    mlp, lenet, resnet = (f"{row['times_as_fast_as_loop']:.0f}" for row in rows)
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert f"on an H200 {mlp} (MLP), {lenet} (LeNet) and {resnet} times (wide ResNet) as fast" in readme


def test_three_seeds_tell_no_difference_between_the_dtypes_as_the_page_says() -> None:
    rows = json.loads((DOCS.parent / "results" / "bf16-vs-float32-h200.json").read_text())["rows"]
    differences = [student_interval(half - full) for *_, full, half in performance.paired_scores(rows)]
    told_apart = any(difference.excludes_zero for difference in differences)
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert ("Every interval holds zero" in page) == (not told_apart)


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(performance, "RESULTS", tmp_path)

    def write(name: str, *rows: dict) -> None:
        found = {"command": "python x.py", "torch": "2.11", "environment": GPU, "rows": rows}
        (tmp_path / f"{name}-h200.json").write_text(json.dumps(found))

    return write


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_was_not_measured_says_so(results, name: str) -> None:
    assert re.fullmatch(r"Not measured yet; `python benchmarks/.*` does it\.\n", TABLES[name]())


def test_peers_and_floor(results) -> None:
    row = {
        "network": "LeNet",
        "compile_s": 5.52,
        "ours_ms": 0.5,
        "peers_ms": {"loop, fp32": 20.0, "loop, bf16": 15.0},
        "missing": {"z": "no"},
    }
    row |= {"floor_ms": 0.25, "flops": 24e9, "bytes": 0.6e9, "flops_a_second": 7e14, "bytes_a_second": 4e12}
    results("peers", row)
    assert performance.peers() == (
        "| network | side | ms a step | ours is faster by |\n| --- | --- | --- | --- |\n"
        "| LeNet | **ours**, compiled in 5.5 s | 0.50 |  |\n|  | PyTorch, loop, bf16 | 15.00 | 30.0 × |\n"
        "|  | PyTorch, loop, fp32 | 20.00 | 40.0 × |\n|  | PyTorch, z | – (no) |  |\n\n"
        "Measured by `python x.py` on NVIDIA H200, jax 0.11.2, torch 2.11.\n"
    )
    assert "| LeNet | 0.50 | 0.25 | 2.0 | 24 | 0.6 | 700 TFLOP/s, 4 TB/s |" in performance.floors()


def test_a_change_shows_as_columns_and_small_classes_are_left_out(results) -> None:
    before = {"network": "MLP", "state": "before", "ms": 2.0, "by_kind_ms": {"convolution": 1.5, "other": 0.001}}
    now = {"network": "MLP", "state": "now", "ms": 1.0, "by_kind_ms": {"convolution": 0.5, "other": 0.0}}
    results("where-time-goes", before, now)
    text = performance.where_time_goes()
    assert "| network | ms a step in | before | now |" in text
    assert "| MLP | whole step | **2.00** | **1.00** |" in text
    assert "|  | convolution | 1.50 | 0.50 |" in text
    assert "other" not in text


def test_scores_of_both_dtypes_are_compared_in_pairs(results) -> None:
    rows = [
        {"network": "lenet", "epochs": 100, "seed": seed, "dtype": dtype, "accuracy": value, "ece": 0.1, "nll": 1.0}
        for seed, dtype, value in [
            (0, "float32", 0.5),
            (0, "bfloat16", 0.51),
            (1, "float32", 0.52),
            (1, "bfloat16", 0.54),
        ]
    ]
    results("bf16-vs-float32", *rows, rows[0] | {"seed": 2})  # a seed that has only one of them does not count
    line = "| lenet | 100 | 2 | accuracy | 0.5100 ± 0.0141 | 0.5250 ± 0.0212 | +0.0150 ± 0.0635 |"
    assert line in performance.dtypes()  # Student's t of one degree of freedom: 12.706 standard errors of 0.005


def test_how_far_gradients_are_moved(results) -> None:
    moved = {"bfloat16": 0.0161, "bfloat16_largest": 0.0475, "next_batch": 1.36, "next_batch_smallest": 0.9}
    results("bf16-gradients", {"network": "lenet", "epochs": 30} | moved)
    assert "| lenet | 30 epochs | 1.6% | 4.8% | 136% | 90% |" in performance.gradients()


def test_compile_times_of_several_processes_have_a_range(results) -> None:
    row = {"network": "WRN", "method": "nu", "ms": 7.812, "compile_s": 9.0, "compile_s_of_each": [9.0, 8.44, 10.6]}
    results("step-time", row, {"network": "LeNet", "method": "nu", "ms": 0.5, "compile_s": 4.3})
    assert performance.step_time().splitlines()[2:4] == [
        "| LeNet | nu | 0.50 | 4.3 |",
        "| WRN | nu | 7.81 | 9.0 (8.4 to 10.6, 3 processes) |",
    ]


def test_scaling_names_what_grows(results) -> None:
    results(
        "scaling",
        {"part": "unlabelled", "network": "mlp", "value": 1000000, "ms": 0.4, "plan": "vectorised", "peak_bytes": 2e9},
        {
            "part": "devices",
            "network": "mlp",
            "value": 4,
            "ms": 1,
            "plan": "sharded",
            "devices_used": 4,
            "collectives": 0,
        },
    )
    text = performance.scaling()
    assert "| unlabelled rows | mlp | 1,000,000 | 0.400 | 2000 | vectorised |" in text
    assert "| simulated CPU devices | mlp | 4 | 1.000 |  | sharded, 4 used, 0 exchanges |" in text

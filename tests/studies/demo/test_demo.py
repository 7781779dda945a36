"""The demo in small: its rows, what they share, its words, its table and its folder."""

import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from nu_ensembles.errors import InputError
from nu_ensembles.metrics import evaluate
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.figure import demo_figure, main, write_figure
from nu_ensembles_studies.demo.result import DemoResult, DemoSettings
from nu_ensembles_studies.demo.run import REFERENCE, row_titles, run_demo
from nu_ensembles_studies.demo.terminal import markdown_table, print_demo
from nu_ensembles_studies.demo.verdict import verdict
from nu_ensembles_studies.results.intervals import METRICS

TINY = DemoSettings(
    n_deployed=1,
    deployed_members=2,
    deployed_passes=2,
    n_labels=30,
    n_unlabeled=40,
    n_members=2,
    hidden=(8,),
    last_step=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def result(folder) -> DemoResult:
    return run_demo(2, 3, folder, verbose=0, settings=TINY, command="as typed")


def synthetic(nll_auto, nll_early, nll_last, ece_fixed=(0.03, 0.03), ece_last=(0.05, 0.05)) -> Comparison:
    """A comparison with the given NLL and ECE; all else is constant."""
    n = len(nll_auto)
    scores = {metric.key: np.full((6, n), 0.5) for metric in METRICS}
    order = list(row_titles(0.003))
    scores["nll"][order.index("nu_auto")] = nll_auto
    scores["nll"][order.index("standard_early")] = nll_early
    scores["nll"][order.index("standard_last")] = nll_last
    scores["ece"][order.index("nu_fixed")] = ece_fixed[:n]
    scores["ece"][order.index("standard_last")] = ece_last[:n]
    return Comparison(row_titles(0.003), tuple(range(n)), scores, REFERENCE)


def test_the_second_act_compares_both_ensembles_on_a_deployment_that_differs(result):
    act = result.deployment
    assert act is not None
    assert act.comparison.seeds == (103,)
    assert act.probabilities.shape[:2] == (1, 2)
    assert act.verdicts[0].startswith("The unlabelled rows differ from the labelled ones")
    assert result.verdict[0] == act.sentence
    assert "the true accuracy was within what it expected on" in act.sentence


def test_six_rows_are_scored_on_every_seed(result):
    assert list(result.comparison.rows.values()) == [
        "single network",
        "standard, last epoch",
        "standard, early-stopped",
        "standard + temperature",
        "ν, β 0.0003, last epoch",
        "ν, auto",
    ]
    assert result.comparison.seeds == (3, 4)
    assert result.probabilities.shape == (2, 6, 1797 - 70, 10)
    for metric in METRICS:
        assert result.comparison.scores[metric.key].shape == (6, 2)


def test_scores_are_those_of_the_kept_probabilities(result):
    for row in result.comparison.rows:
        probabilities, labels = result.of_row(row, 4)
        scored = evaluate(probabilities[None], labels)
        assert result.comparison.values(row, "nll")[1] == pytest.approx(scored["nll"], rel=1e-5)
        assert result.comparison.values(row, "accuracy")[1] == pytest.approx(scored["accuracy"])


def test_only_the_single_network_has_no_mutual_information(result):
    information = result.comparison.scores["mutual_information"]
    assert np.isnan(information[0]).all()
    assert np.isfinite(information[1:]).all()


def test_temperature_changes_no_prediction_and_no_member(result):
    for metric in ("accuracy", "mutual_information"):
        scaled = result.comparison.values("standard_temperature", metric)
        np.testing.assert_array_equal(scaled, result.comparison.values("standard_early", metric))
    scaled, _ = result.of_row("standard_temperature", 3)
    plain, _ = result.of_row("standard_early", 3)
    powered = plain.astype(np.float64) ** (1 / result.choices[0].temperature)
    np.testing.assert_allclose(scaled, powered / powered.sum(axis=1, keepdims=True), atol=1e-5)


def test_early_stopping_at_the_last_step_is_the_last_epoch_to_the_bit(result):
    same = [choice.seed for choice in result.choices if choice.standard_steps == TINY.last_step]
    for seed in same:
        early, last = (result.of_row(row, seed)[0] for row in ("standard_early", "standard_last"))
        np.testing.assert_array_equal(early, last)
    assert same, "in twelve steps nothing overfits: at least one of the two splits should train to the end"


def test_each_seed_is_another_split(result):
    assert not np.array_equal(result.labels[0], result.labels[1])


def test_the_choices_are_those_of_the_search(result):
    for choice in result.choices:
        assert choice.beta == choice.grid.betas[choice.grid.chosen[0]]
        assert choice.n_steps == choice.grid.steps[choice.grid.chosen[1]]
        assert choice.standard_steps == choice.grid.steps[np.nanargmin(choice.grid.nll[0])]
        assert choice.grid.betas[0] == 0
        assert choice.grid.steps[-1] == TINY.last_step
        assert choice.verdict.startswith("β = ")


def test_a_result_survives_strict_json(result):
    text = json.dumps(result.to_dict(), allow_nan=False)
    back = DemoResult.from_dict(json.loads(text), result.probabilities, result.labels)
    assert back.to_dict() == result.to_dict()
    assert back.settings == TINY


def test_a_saved_demo_holds_numbers_predictions_and_a_page_and_loads_again(result, folder):
    assert sorted(path.name for path in folder.iterdir()) == ["predictions.safetensors", "report.html", "results.json"]
    back = DemoResult.load(folder)
    assert back.to_dict() == result.to_dict()
    np.testing.assert_array_equal(back.probabilities, result.probabilities)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "as typed" in page
    for choice in result.choices:
        assert f">{choice.n_steps}</td>" in page


def test_a_folder_without_a_demo_is_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"study": "another"}')
    with pytest.raises(InputError, match="holds no results of a demo"):
        DemoResult.load(tmp_path)


def test_a_folder_that_exists_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(InputError, match="exists already"):
        run_demo(out=tmp_path)


def test_the_scores_can_be_quoted_in_markdown(result):
    head, rule, *rows = markdown_table(result.comparison).splitlines()
    assert head == "|  | Accuracy % | NLL | ECE | TACE | Brier rel. | MI, bits |"
    assert rule == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert len(rows) == 6
    assert rows[0].startswith("| single network | ")
    assert rows[0].endswith(" | – |")
    assert METRICS[1].text(result.comparison.mean("nu_auto", "nll")) in rows[-1]


def test_at_least_one_seed_is_needed():
    with pytest.raises(InputError, match="n_seeds"):
        run_demo(0)


def test_the_verdict_says_so_when_nothing_is_clear():
    comparison = synthetic((0.49, 0.51), (0.50, 0.50), (0.60, 0.56))
    first, last = verdict(comparison, [0.003, 0.001], 0.003)
    # auto - early = -0.01, +0.01: 0 ± 12.706 * 0.01; auto - last = -0.11, -0.05: -0.08 ± 12.706 * 0.03.
    assert first == (
        "ν (auto) has a test NLL of 0.500 over 2 splits: 0.0 % ± 25.4 lower (no clear difference) than the "
        "early-stopped standard ensemble and 13.8 % ± 65.7 lower (no clear difference) than the one "
        "trained to the last epoch."
    )
    assert last == (
        "β fixed at 0.003 takes the last epoch's ECE from 0.050 to 0.030 (−0.020 ± 0.000) and its accuracy from 50.0 % "
        "to 50.0 % (0.0 ± 0.0: no clear difference)."
    )


def test_the_verdict_admits_a_loss_and_a_standard_choice():
    sentences = verdict(synthetic((0.52, 0.52), (0.50, 0.50), (0.40, 0.40)), [0.0, 0.003], 0.003)
    assert "4.0 % ± 0.0 higher than the early-stopped" in sentences[0]
    assert "30.0 % ± 0.0 higher than the one trained to the last epoch" in sentences[0]
    assert sentences[1] == "Its search found no β that helps, and so trained a standard ensemble, on 1 of 2 splits."


@pytest.mark.parametrize("n", [1, 2])
def test_where_every_choice_is_the_standard_ensemble_the_verdict_says_that_it_is_the_same(n):
    sentences = verdict(synthetic((0.5,) * n, (0.5,) * n, (0.6,) * n), [0.0] * n, 0.003)
    assert ": the same as the early-stopped standard ensemble and 16.7 %" in sentences[0]


def test_one_split_gives_a_verdict_without_intervals():
    sentences = verdict(synthetic((0.45,), (0.50,), (0.60,)), [0.0], 0.003)
    assert sentences[0].startswith(
        "ν (auto) has a test NLL of 0.450 over one split, which gives no intervals: 10.0 % lower"
    )
    assert "its only split" in sentences[1]
    assert not any("±" in sentence for sentence in sentences)


def printed(result: DemoResult, width: int) -> list[str]:
    text = io.StringIO()
    print_demo(result, Console(file=text, width=width))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100])
def test_the_printed_table_fits_and_carries_no_colour_codes_outside_a_terminal(result, width):
    lines = printed(result, width)
    assert max(map(len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    for title in result.comparison.rows.values():
        assert any(line.startswith(title) for line in lines)


def test_the_printed_table_shows_mean_and_interval_in_one_line_of_100_columns(result):
    [line, *_] = [line for line in printed(result, 100) if line.startswith("ν, auto")]
    mean = METRICS[0].text(result.comparison.mean("nu_auto", "accuracy"))
    assert mean in line
    assert len(re.findall("±", line)) == 6


def test_the_verdict_is_the_last_thing_printed(result):
    text = " ".join(" ".join(printed(result, 100)).split())
    assert text.endswith(" ".join(result.verdict))


def test_the_readme_figure_is_the_same_bytes_each_time(result, folder, tmp_path):
    main([str(tmp_path / "one.svg"), str(folder)])
    write_figure(tmp_path / "two.svg", demo_figure(result))
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    write_figure(tmp_path / "demo.png", demo_figure(result))
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_readme_figure_needs_a_picture_file():
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        main(["demo.txt"])


def test_a_missing_interval_is_a_number_that_json_can_hold():
    entry = synthetic((0.45,), (0.50,), (0.60,)).to_dict()["rows"][0]["scores"]["nll"]
    assert entry["half_width"] is None
    assert math.isclose(entry["mean"], 0.5)

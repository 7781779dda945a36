"""Several runs of a study as one: what was asked for is taken together, and nothing is mixed silently."""

import dataclasses
import math

import pytest

from nu_ensembles.cli.report import report
from nu_ensembles.errors import InputError
from nu_ensembles_studies.results.folder import Record
from nu_ensembles_studies.results.json_numbers import plain, stored_value
from nu_ensembles_studies.results.merging import merged, usable
from nu_ensembles_studies.results.results import Results
from nu_ensembles_studies.run.reading import read_results


@pytest.fixture(scope="module")
def whole(small_study) -> Results:
    return read_results(small_study)


def part(whole: Results, method: str, **changes) -> Results:
    """The run of one method alone."""
    options = dataclasses.replace(whole.options, methods=(method,), **changes)
    records = {cell: record for cell, record in whole.records.items() if cell.method == method}
    about = {**whole.about, "commands": [f"study {method}"], "seconds": 2.0}
    return Results(whole.study, options, whole.study.declare(options), records, about)


def test_two_runs_have_the_rows_of_the_whole(whole):
    both = merged([part(whole, "standard"), part(whole, "nu")])
    assert both.options == whole.options
    assert both.records == whole.records
    assert [row.title for row in both.rows] == [row.title for row in whole.rows]
    assert both.about["commands"] == ["study standard", "study nu"]
    assert both.about["seconds"] == 4.0


def test_a_combination_that_no_run_measured_is_missing(whole):
    other = part(whole, "nu", models=("lenet",))
    both = merged([part(whole, "standard"), dataclasses.replace(other, records={})])
    assert {(cell.model, cell.method) for cell in both.missing()} == {
        ("mlp", "nu"),
        ("lenet", "standard"),
        ("lenet", "nu"),
    }


def test_seeds_are_taken_together(whole):
    both = merged([part(whole, "nu"), part(whole, "nu", first_seed=2, seeds=3)])
    assert (both.options.first_seed, both.options.seeds) == (0, 5)


def at_epochs(record: Record, *epochs: int) -> Record:
    """A record of some of the epochs alone."""
    measured = {"epochs": {str(each): record.measured["epochs"][str(each)] for each in epochs}}
    return dataclasses.replace(record, cell=dataclasses.replace(record.cell, epochs=epochs), measured=measured)


def test_records_of_one_maker_are_one_at_the_epochs_of_both(whole):
    first = part(whole, "standard")
    cell, record = next(iter(first.records.items()))
    assert record.cell.epochs == (2, 4)
    parts = [dataclasses.replace(first, records={cell: at_epochs(record, epochs)}) for epochs in (4, 2)]
    (found,) = merged(parts).records.values()
    assert (found.cell, found.measured) == (record.cell, record.measured)
    less = {"epochs": {at: {"test": {"nll": 1.0}} for at in ("2", "4")}}
    slim = dataclasses.replace(first, records={cell: dataclasses.replace(record, measured=less)})
    for parts in ([first, slim], [slim, first]):
        assert merged(parts).records[cell].measured == record.measured
    again = dataclasses.replace(record, seconds=99.0)
    assert merged([first, dataclasses.replace(first, records={cell: again})]).records[cell].seconds == 99.0


def test_of_two_makers_the_longer_record_is_kept(whole):
    first = part(whole, "standard")
    cell, record = next(iter(first.records.items()))
    shorter = dataclasses.replace(at_epochs(record, 4), maker={**record.maker, "device": "another device"})
    others = dataclasses.replace(first, records={cell: shorter})
    for parts in ([first, others], [others, first]):
        assert merged(parts, mixed=True).records[cell] is record


def test_records_that_an_export_cut_down_are_not_taken_over(whole):
    cell, record = next(iter(whole.records.items()))
    asked = dataclasses.replace(cell, also=("prefixes",))
    own = dataclasses.replace(record.cell, also=("prefixes",))
    more = {at: {**scores, "prefixes": {}} for at, scores in record.measured["epochs"].items()}
    for measured, taken in (({"epochs": more}, 1), ({"epochs": {**more, **record.measured["epochs"]}}, 0)):
        stored = dataclasses.replace(record, cell=own, measured=measured)
        earlier = dataclasses.replace(whole, records={asked: stored})
        assert len(usable(earlier, whole.study, [asked])) == taken


def test_runs_on_a_cpu_and_a_gpu_are_mixed_where_their_cells_are_the_same(whole):
    there = part(whole, "nu", backend="gpu")
    with pytest.raises(InputError, match="cpu and gpu"):
        merged([part(whole, "standard"), there])
    assert merged([part(whole, "standard"), there], mixed=True).records == whole.records
    convolutional = {"models": ("lenet",), "dtype": "auto"}
    with pytest.raises(InputError, match="types of activations"):
        merged([part(whole, "nu", **convolutional), part(whole, "nu", **convolutional, backend="gpu")], mixed=True)


def test_other_makers_other_studies_and_other_options_are_refused(whole):
    elsewhere = dataclasses.replace(
        part(whole, "nu"),
        records={
            cell: dataclasses.replace(record, maker={**record.maker, "device": "another device"})
            for cell, record in part(whole, "nu").records.items()
        },
    )
    with pytest.raises(InputError, match=r"another device.*--mixed"):
        merged([part(whole, "standard"), elsewhere])
    assert len(merged([part(whole, "standard"), elsewhere], mixed=True).makers()) == 2
    with pytest.raises(InputError, match="differ in more than"):
        merged([part(whole, "standard"), part(whole, "nu", members=7)])
    with pytest.raises(InputError, match="--n"):
        merged([part(whole, "standard"), part(whole, "nu", n=(50,))])
    other = dataclasses.replace(whole, study=dataclasses.replace(whole.study, name="cost"))
    with pytest.raises(InputError, match="'table1' and 'cost'"):
        merged([whole, other])


def test_the_command_merges_folders_and_files(small_study, tmp_path):
    files = {"out": tmp_path / "both.html", "export": tmp_path / "both.json"}
    report(small_study, small_study / "results.json", **files)
    assert read_results(tmp_path / "both.json").records.keys() == read_results(small_study).records.keys()
    assert (tmp_path / "both.html").stat().st_size > 10_000
    with pytest.raises(InputError, match="nowhere does not exist"):
        report(small_study, tmp_path / "nowhere")


def test_an_infinite_nll_is_shown_as_such_and_not_left_out_of_a_mean(whole):
    row = next(row for row in whole.rows if row.method == "standard")
    record, epochs = whole.chosen(row)[0]
    measured = {**record.measured["epochs"]}
    scores = measured[str(epochs)]
    measured[str(epochs)] = {**scores, "test": {**scores["test"], **plain({"nll": math.inf, "ece": math.nan})}}
    changed = Record(record.cell, record.status, record.maker, {"epochs": measured})
    results = dataclasses.replace(whole, records={**whole.records, record.cell.identity: changed}, _choices={})
    assert results.mean(row, "nll").text() == "∞"
    assert results.mean(row, "ece").mean == whole.values(row, "ece")[1]


def test_stored_values_come_back() -> None:
    stored = plain({"nll": math.inf, "ece": math.nan, "accuracy": 0.5})
    assert stored == {"nll": None, "ece": None, "accuracy": 0.5}
    assert stored_value(stored, "nll") == math.inf
    assert math.isnan(stored_value(stored, "ece"))
    assert math.isnan(stored_value({}, "nll"))
    assert stored_value(stored, "accuracy") == 0.5

"""evaluate: all metrics in one call, several runs, intervals."""

import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from nu_ensembles import metrics
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.bootstrap import interval, resample_counts, resampled, wilson
from nu_ensembles.metrics.evaluation import ensemble_statistics
from nu_ensembles.metrics.weighting import unit_weights

KEYS = {
    "accuracy", "nll", "brier", "ece", "ece_debiased", "ece_classwise", "ece_top_label", "tace", "tace_nixon",
    "overconfidence", "brier_reliability", "brier_resolution", "brier_uncertainty", "brier_exact_reliability",
    "brier_exact_resolution", "error_auroc", "aurc", "mutual_information", "mutual_information_corrected",
    "variance", "disagreement", "epistemic", "entropy", "member_accuracy", "member_nll", "accuracy_gain",
    "nll_gain",
}  # fmt: skip


def test_evaluate_agrees_with_the_single_functions(ensemble):
    members, labels = ensemble(4, 300, 6, seed=0)
    scores = metrics.evaluate(members, labels)
    exact = metrics.brier_decomposition(members, labels, method="exact")
    expected = {
        "accuracy": metrics.accuracy(members, labels),
        "nll": metrics.nll(members, labels),
        "ece_debiased": metrics.ece(members, labels, debias=True),
        "ece_classwise": metrics.classwise_ece(members, labels),
        "ece_top_label": metrics.top_label_ece(members, labels),
        "tace_nixon": metrics.tace(members, labels, variant="nixon"),
        "brier_exact_reliability": exact.reliability,
        "brier_exact_resolution": exact.resolution,
        "error_auroc": metrics.error_auroc(members, labels),
        "aurc": metrics.aurc(members, labels),
        "mutual_information_corrected": metrics.mutual_information(members, bias_corrected=True),
        "disagreement": metrics.disagreement(members),
        "member_accuracy": np.mean([metrics.accuracy(member, labels) for member in members]),
        "member_nll": np.mean([metrics.nll(member, labels) for member in members]),
    }
    assert set(scores) == KEYS
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores["nll_gain"] == pytest.approx(scores["member_nll"] - scores["nll"])
    assert scores["accuracy_gain"] == pytest.approx(scores["accuracy"] - scores["member_accuracy"])
    assert all(type(value) is float for value in scores.values())


def test_averaging_never_raises_the_nll(ensemble):
    members, labels = ensemble(3, 50, 4, seed=1)
    assert metrics.evaluate(members, labels)["nll_gain"] >= 0.0


def test_a_single_network_may_come_without_a_member_axis(ensemble):
    members, labels = ensemble(1, 40, 3, seed=2)
    scores = metrics.evaluate(members[0], labels)
    assert scores == pytest.approx(metrics.evaluate(members, labels), nan_ok=True)
    undefined = {name for name, value in scores.items() if math.isnan(value)}
    assert undefined == {"mutual_information", "mutual_information_corrected", "disagreement"}
    assert scores["variance"] == scores["nll_gain"] == scores["accuracy_gain"] == 0.0
    assert scores["epistemic"] == pytest.approx(0.0, abs=1e-7)


def test_infinite_nll_brings_no_warning_and_no_other_infinity():
    members = np.eye(3)[[[0, 1, 2, 0], [0, 1, 0, 0]]]
    scores = metrics.evaluate(members, [1, 1, 2, 0], intervals=0.9, n_resamples=20)
    assert scores["nll"] == scores["member_nll"] == scores["nll_high"] == math.inf
    assert math.isnan(scores["nll_gain"])
    assert scores["ece"] == pytest.approx((1.0 + 0.5) / 4)


def test_several_runs_are_averaged(ensemble):
    runs = [ensemble(3, 100, 4, seed=seed)[0] for seed in range(3)]
    labels = ensemble(3, 100, 4, seed=0)[1]
    together = metrics.evaluate(runs, labels)
    single = [metrics.evaluate(run, labels) for run in runs]
    assert together == pytest.approx({name: np.mean([row[name] for row in single]) for name in together})
    assert metrics.evaluate(np.stack(runs), labels) == pytest.approx(together)


def test_resampled_metrics_are_those_of_the_repeated_samples(ensemble):
    members, labels = ensemble(3, 200, 5, seed=3)
    statistics = ensemble_statistics(members, labels, reuse=True)
    counts = resample_counts(np.random.default_rng(0), 200, 4)
    fast = statistics(counts)
    for r in range(4):
        index = np.repeat(np.arange(200), counts[:, r].astype(int))
        slow = metrics.evaluate(members[:, index], labels[index])
        assert {name: float(values[r]) for name, values in fast.items()} == pytest.approx(slow, abs=1e-12)


def test_tied_probabilities_resample_like_repeated_samples():
    rng = np.random.default_rng(5)
    votes = rng.integers(0, 4, (5, 300))
    members, labels = np.eye(4)[votes], rng.integers(0, 4, 300)
    statistics = ensemble_statistics(members, labels, reuse=True)
    counts = resample_counts(rng, 300, 3)
    fast = statistics(counts)
    for r in range(3):
        index = np.repeat(np.arange(300), counts[:, r].astype(int))
        slow = metrics.evaluate(members[:, index], labels[index])
        finite = [name for name in slow if not name.endswith(("nll", "nll_gain"))]
        assert {n: float(fast[n][r]) for n in finite} == pytest.approx({n: slow[n] for n in finite}, abs=1e-12)


def test_every_metric_gets_an_interval_around_it(ensemble):
    members, labels = ensemble(3, 150, 4, seed=4)
    scores = metrics.evaluate(members, labels, intervals=0.9, n_resamples=100)
    assert set(scores) == KEYS | {f"{name}_{end}" for name in KEYS for end in ("low", "high")}
    assert all(scores[f"{name}_low"] <= scores[name] <= scores[f"{name}_high"] for name in KEYS)
    assert scores["accuracy_low"] < scores["accuracy"] < scores["accuracy_high"]


def test_intervals_repeat_with_the_seed_and_widen_with_the_level(ensemble):
    members, labels = ensemble(2, 100, 3, seed=5)
    first = metrics.evaluate(members, labels, intervals=0.8, n_resamples=70, seed=1)
    assert metrics.evaluate(members, labels, intervals=0.8, n_resamples=70, seed=1) == first
    wider = metrics.evaluate(members, labels, intervals=0.99, n_resamples=70, seed=1)
    assert wider["nll_low"] < first["nll_low"] < first["nll_high"] < wider["nll_high"]


def test_the_accuracy_interval_has_the_binomial_width(calibrated):
    probs, labels = calibrated(2000, 4, seed=6)
    scores = metrics.evaluate(probs, labels, intervals=0.95, n_resamples=1000)
    deviation = math.sqrt(scores["accuracy"] * (1 - scores["accuracy"]) / 2000)
    assert scores["accuracy_high"] - scores["accuracy_low"] == pytest.approx(2 * 1.96 * deviation, rel=0.1)


def test_runs_that_differ_widen_the_interval(ensemble):
    labels = ensemble(2, 400, 3, seed=7)[1]
    same = [ensemble(2, 400, 3, seed=7)[0]] * 4
    different = [ensemble(2, 400, 3, seed=7, sharpness=s)[0] for s in (1.0, 2.0, 3.0, 4.0)]
    narrow = metrics.evaluate(same, labels, intervals=0.9, n_resamples=200)
    wide = metrics.evaluate(different, labels, intervals=0.9, n_resamples=200)
    assert wide["entropy_high"] - wide["entropy_low"] > 5 * (narrow["entropy_high"] - narrow["entropy_low"])


def test_the_spread_between_runs_is_that_of_their_mean():
    # two runs, no noise within: standard error |a - b| / 2, not the |a - b| / (2 sqrt 2) of the plain bootstrap
    draws = np.array([[0.0] * 4000, [1.0] * 4000])
    low, high = interval(0.5, draws, 0.9, seed=0, within=(-np.inf, np.inf))
    assert (low, high) == pytest.approx((0.5 - math.sqrt(0.5), 0.5 + math.sqrt(0.5)))


def test_the_interval_takes_the_bias_of_resampling_off():
    draws = np.linspace(1.2, 1.4, 101)[None]
    assert interval(1.0, draws, 0.9, seed=0, within=(0.0, 2.0)) == pytest.approx((0.61, 1.0), abs=0.01)
    assert interval(1.0, draws, 0.9, seed=0, within=(0.0, 2.0), centred=True) == pytest.approx((0.91, 1.09), abs=0.01)
    assert interval(0.5, draws, 0.9, seed=0, within=(0.0, 2.0)) == pytest.approx((0.0, 0.5))


def test_intervals_end_where_the_metric_does(calibrated):
    labels = calibrated(50, 3, seed=0)[1]
    almost = np.full((50, 3), 0.01)
    almost[np.arange(50), labels] = 0.98
    almost[0] = np.roll(almost[0], 1)
    scores = metrics.evaluate(almost, labels, intervals=0.95, n_resamples=200)
    assert scores["accuracy"] == 0.98
    assert scores["accuracy_high"] == 1.0
    assert scores["aurc_low"] == 0.0


@pytest.mark.slow
def test_intervals_cover_the_truth_about_as_often_as_they_promise(ensemble):
    truth = metrics.evaluate(*ensemble(3, 40_000, 5, seed=100))
    names = ("accuracy", "nll", "brier", "ece_debiased", "brier_reliability", "mutual_information", "aurc")
    hits = dict.fromkeys(names, 0)
    for seed in range(40):
        scores = metrics.evaluate(*ensemble(3, 400, 5, seed=seed), intervals=0.9, n_resamples=100)
        for name in names:
            hits[name] += scores[f"{name}_low"] <= truth[name] <= scores[f"{name}_high"]
    assert all(count >= 30 for count in hits.values()), hits


def test_chunks_do_not_change_the_number_of_resamples():
    draws = resampled(lambda w: {"total": w.sum(axis=0)}, n_samples=7, n_resamples=45, seed=0)
    assert draws["total"].tolist() == [7.0] * 45


def test_unequal_runs_are_refused(ensemble):
    runs = [ensemble(2, 10, 3, seed=0)[0], ensemble(2, 11, 3, seed=0)[0]]
    with pytest.raises(InputError, match="11 samples"):
        metrics.evaluate(runs, ensemble(2, 10, 3, seed=0)[1])


@pytest.mark.parametrize("n_members", [1, 10])
def test_memory_stays_below_three_times_the_input(ensemble, n_members):
    members, labels = ensemble(n_members, 2000, 100, seed=8)
    metrics.evaluate(members[:, :20], labels[:20])
    tracemalloc.start()
    metrics.evaluate(members, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * members.nbytes


def test_metrics_import_neither_jax_nor_matplotlib_nor_scikit_learn():
    code = (
        "import sys, types; sys.modules['nu_ensembles'] = package = types.ModuleType('nu_ensembles');"
        "package.__path__ = [sys.argv[1]]; import nu_ensembles.metrics, nu_ensembles.theory;"
        "print([m for m in ('jax', 'matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    )
    package = metrics.__path__[0].removesuffix("metrics")
    found = subprocess.run([sys.executable, "-c", code, package], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_unit_weights_give_the_plain_value(ensemble):
    members, labels = ensemble(2, 30, 3, seed=9)
    statistics = ensemble_statistics(members, labels, reuse=True)(unit_weights(30))
    plain = metrics.evaluate(members, labels)
    assert {name: float(value[0]) for name, value in statistics.items()} == pytest.approx(plain)


def test_labels_of_any_type_are_scored_with_the_classes_that_they_name(ensemble):
    members, labels = ensemble(2, 30, 3, seed=9)
    plain = metrics.evaluate(members, labels)
    for classes in (np.array(["ant", "bee", "cat"]), [10.0, 20.0, 30.0], np.array([None, True, "x"], object)):
        assert metrics.evaluate(members, np.asarray(classes)[labels], classes=classes) == plain
    with pytest.raises(InputError, match="The label 'dog' is not among the classes"):
        metrics.evaluate(members, ["dog"] * 30, classes=["ant", "bee", "cat"])
    with pytest.raises(InputError, match="name each class once"):
        metrics.evaluate(members, labels, classes=[0, 1, 1])
    with pytest.raises(InputError, match="There are 4 classes for 3 columns of probabilities"):
        metrics.evaluate(members, labels, classes=[0, 1, 2, 3])
    with pytest.raises(InputError, match=r"pass classes=clf\.classes_"):
        metrics.evaluate(members, ["ant"] * 30)


def test_where_all_rows_are_right_accuracy_has_wilsons_interval():
    scores = metrics.evaluate(np.tile([0.9, 0.1], (2, 20, 1)), np.zeros(20, int), intervals=0.95, n_resamples=20)
    # 20 / (20 + 1.96²)
    assert scores["accuracy_low"] == pytest.approx(0.8389, abs=1e-4)
    assert (scores["accuracy"], scores["accuracy_high"], scores["member_accuracy_high"]) == (1, 1, 1)
    assert scores["disagreement_low"] == 0
    assert scores["disagreement_high"] == pytest.approx(0.1611, abs=1e-4)


def test_wilsons_interval_is_the_published_one():
    # Wilson's own formula with z = 1.96 for 8 of 10.
    assert wilson(0.8, 10, 0.95) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0.0, 10, 0.95) == pytest.approx((0.0, 0.2775), abs=1e-4)

"""Agreement with other libraries where they define the same quantity."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, mutual_info_score, roc_auc_score

from nu_ensembles import metrics

# deprecations inside the other libraries are not ours to fix
peer_warnings = pytest.mark.filterwarnings("ignore")

CASES = [(2, 500, 2), (3, 400, 5), (5, 300, 20)]


@pytest.fixture(params=CASES, ids=str)
def case(request, ensemble):
    members, labels = ensemble(*request.param, seed=7)
    return members.astype(np.float64) / members.sum(axis=-1, keepdims=True, dtype=np.float64), labels


def test_scores_agree_with_scikit_learn(case):
    members, labels = case
    mean = members.mean(axis=0)
    classes = range(mean.shape[1])
    scores = metrics.evaluate(members, labels)
    assert scores["accuracy"] == pytest.approx(accuracy_score(labels, mean.argmax(axis=1)))
    assert scores["nll"] == pytest.approx(log_loss(labels, mean, labels=classes))
    by_peer = brier_score_loss(labels, mean, labels=classes, scale_by_half=False)  # pyright: ignore[reportArgumentType]
    assert scores["brier"] == pytest.approx(by_peer)


def test_mutual_information_agrees_with_scikit_learn(case):
    members, _ = case
    votes = members.argmax(axis=2)
    pairs = [mutual_info_score(votes[i], votes[j]) for i in range(len(votes)) for j in range(i)]
    assert metrics.mutual_information(members) == pytest.approx(np.mean(pairs) / np.log(2))


def test_error_auroc_agrees_with_scikit_learn(case):
    members, labels = case
    mean = members.mean(axis=0)
    expected = roc_auc_score(mean.argmax(axis=1) == labels, mean.max(axis=1))
    assert metrics.error_auroc(members, labels) == pytest.approx(expected)


@pytest.mark.slow
@peer_warnings
def test_ece_agrees_with_torchmetrics(case):
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional.classification")
    members, labels = case
    mean = members.mean(axis=0)
    expected = functional.multiclass_calibration_error(
        torch.tensor(mean), torch.tensor(labels), num_classes=mean.shape[1], n_bins=15, norm="l1"
    )
    assert metrics.ece(members, labels) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)


@pytest.mark.slow
@peer_warnings
def test_ece_agrees_with_netcal(case):
    netcal = pytest.importorskip("netcal.metrics")
    members, labels = case
    mean = members.mean(axis=0)
    # with two classes netcal bins the probability of class 1 instead of the confidence, so it gets the confidences
    right = (mean.argmax(axis=1) == labels).astype(int)
    assert metrics.ece(members, labels) == pytest.approx(netcal.ECE(15).measure(mean.max(axis=1), right), rel=1e-6)


@pytest.mark.slow
@peer_warnings
# with two classes netcal fits a different map
@pytest.mark.parametrize("case", CASES[1:], indirect=True, ids=str)
def test_temperature_without_prior_agrees_with_netcal(case):
    scaling = pytest.importorskip("netcal.scaling")
    members, labels = case
    mean = members.mean(axis=0)
    peer = scaling.TemperatureScaling()
    peer.fit(mean, labels)
    ours = metrics.TemperatureScaling(prior=0.0).fit(mean, labels)
    np.testing.assert_allclose(ours.transform(mean), peer.transform(mean), atol=2e-3)

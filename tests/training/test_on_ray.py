"""Members as tasks of a cluster: what is refused; what they come to is in `test_executors.py` of the studies."""

from __future__ import annotations

import sys
import types

import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.training.on_ray import _refuse_silent


@pytest.fixture
def some_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))


@pytest.mark.parametrize("wrong", [{"cpus_per_task": -1}, {"gpus_per_task": "many"}, {"retries": 0.5}])
def test_resources_that_are_none_are_refused(wrong) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        nu.RayCluster(**wrong)


def test_a_task_needs_some_processor() -> None:
    with pytest.raises(InputError, match="give cpus_per_task or gpus_per_task"):
        nu.RayCluster(cpus_per_task=0)
    assert nu.RayCluster(cpus_per_task=0, gpus_per_task=0.25).retries == 3


@pytest.mark.parametrize(
    ("address", "said"),
    [("127.0.0.1:9", "does not answer"), ("head", "HOST:PORT"), ("http://head:6379/x", "HOST:PORT")],
)
def test_an_address_where_nobody_answers_is_told(address: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        _refuse_silent(address)


def test_members_that_meet_cannot_be_tasks(some_ray, blobs, tmp_path) -> None:
    x, y, u = blobs
    with pytest.raises(InputError, match="do not train independently"):
        nu.fit("mlp", x, y, u, method="agree_to_disagree", n_members=2, plan="ray", run_folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_ray_the_extra_is_named(monkeypatch, blobs) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    x, y, _ = blobs
    with pytest.raises(MissingExtraError, match=r"nu-ensembles\[ray\]"):
        nu.fit("mlp", x, y, n_members=2, plan="ray")

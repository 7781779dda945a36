"""Checks of the process: where JAX would hang, one sentence says so."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

import nu_ensembles as nu
from nu_ensembles import progress
from nu_ensembles.errors import InputError
from nu_ensembles.problem import process


def test_a_process_that_was_forked_after_jax_had_started_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    nu.random_labels(0, n_points=3, n_classes=2, n_members=2)
    monkeypatch.setattr(process, "_used_in", os.getpid() + 1)  # as a child finds it
    with pytest.raises(InputError, match=r"forked from one in which JAX was running.*'spawn'"):
        nu.random_labels(0, n_points=3, n_classes=2, n_members=2)


def test_a_process_that_was_forked_before_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_used_in", None)
    process.refuse_forks()
    assert process._used_in == os.getpid()


def test_a_notebook_shows_bars_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # pyright: ignore
    assert progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # pyright: ignore
    assert not progress.in_notebook()

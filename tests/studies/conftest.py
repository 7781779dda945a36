"""One small study on the digits, trained once for all tests that look at its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from nu_ensembles_studies.declare.options import StudyOptions, StudyRunOptions
from nu_ensembles_studies.run.study_run import run_study

SMALL = StudyOptions(datasets=("digits",), models=("mlp",), seeds=2, quick=True)


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished table1 in small, with its page; not to be changed."""
    folder = tmp_path_factory.mktemp("studies") / "table1"
    run_study("table1", SMALL, folder, StudyRunOptions(verbose=0, stop_on_error=True))
    return folder

"""What importing, fitting and evaluating pull in: a core that runs where the command line's packages are absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import nu_ensembles as nu

NOT_FOR_THE_CORE = {"matplotlib", "rich", "cyclopts", "jinja2", "optuna", "ray", "PIL", "pyarrow", "torch", "equinox"}
OURS = {"nu_ensembles.cli", "nu_ensembles.report", "nu_ensembles_studies"}

FIT = """
import numpy as np, nu_ensembles as nu
x, y, u = np.eye(8, 4, dtype="float32"), np.arange(8) % 2, np.ones((3, 4), "float32")
ensemble = nu.fit(nu.models.mlp(2, hidden=()), x, y, u, n_members=1, steps=1, validation=(x, y))
nu.metrics.evaluate(ensemble.predict_members(x), y)
"""


def modules_after(code: str) -> set[str]:
    """Names of all modules that a fresh Python has loaded after running the code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_neither_jax_nor_scikit_learn_nor_anything_for_the_eye() -> None:
    loaded = modules_after("import nu_ensembles")
    assert not loaded & (NOT_FOR_THE_CORE | OURS | {"sklearn", "jax", "flax", "scipy"})


def test_fitting_and_evaluating_load_nothing_of_the_command_line_the_search_or_the_report() -> None:
    loaded = modules_after(FIT)
    # Flax itself imports rich.
    assert loaded & (NOT_FOR_THE_CORE | OURS | {"sklearn"}) <= {"rich"}
    assert not {name for name in loaded if name.startswith("nu_ensembles.tuning")}


@pytest.mark.parametrize("name", nu.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(nu, name) is not None
    assert name in dir(nu)


def test_the_public_names_of_the_documentation_are_there() -> None:
    assert callable(nu.random_labels)
    assert callable(nu.fit)
    assert callable(nu.metrics.evaluate)
    assert callable(nu.theory.expected_variance)
    assert {nu.methods.Standard.name, nu.methods.Nu.name} == {"standard", "nu"}
    assert isinstance(nu.__version__, str)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'nu_ensembles' has no attribute 'Nothing'"):
        nu.Nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]

"""What all tests share: one compilation cache a session, small data, quiet property tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version

import hypothesis
import numpy as np
import pytest

# Most of the time goes into compiling, and two thirds of that into optimising small programs that run once. Set before
# jax is imported; subprocesses inherit it. With the variable set the programs are those that users get
# (`make test-slow`). XLA ends the process at a flag that it does not know: these are known to jaxlib 0.10.2 to 0.12.
UNOPTIMISED = ["--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false"]
if "NU_ENSEMBLES_TEST_OPTIMISED" not in os.environ:
    known = UNOPTIMISED[: 2 if tuple(map(int, version("jaxlib").split(".")[:2])) <= (0, 12) else 1]
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *known]).strip()

# Compiling inside a property takes longer than hypothesis' limit of 200 ms an example.
hypothesis.settings.register_profile("compiling", deadline=None)
hypothesis.settings.load_profile("compiling")


@pytest.fixture(scope="session", autouse=True)
def compiled_programs_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps compiled programs in a folder of the session, where subprocesses find them, not in the user's own."""
    base = tmp_path_factory.getbasetemp()
    # The processes of `-n 2` have a folder each beneath the session's.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NU_ENSEMBLES_COMPILATION_CACHE", str(session / "compiled"))
        yield


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """The handwritten digits as pixels in [0, 1]: float32 `[1797, 64]`, and the digit of each."""
    from nu_ensembles.datasets.digits import load_digits

    pixels, labels = load_digits()
    return pixels / 16, labels


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three overlapping clouds: 40 labelled rows `[40, 4]`, their classes 0 … 2, and 50 unlabelled rows `[50, 4]`.

    Tests that fit use these sizes throughout, so that they share compiled programs.
    """
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(3, 4))
    y = np.arange(40) % 3
    x = centres[y] + rng.normal(size=(40, 4))
    u = centres[np.arange(50) % 3] + rng.normal(size=(50, 4))
    return x.astype(np.float32), y, u.astype(np.float32)

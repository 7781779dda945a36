"""The examples and the page on methods of one's own do what they say, and a killed training goes on."""

from __future__ import annotations

import re
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.methods import Batch
from nu_ensembles.storage import files

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = ROOT / "docs" / "write-a-method.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_something(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 40


def test_a_run_that_was_interrupted_goes_on_to_the_same_members(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, log = str(ROOT / "examples" / "resuming.py"), Path("runs/digits/log.txt")
    write, written = files.write_sealed_json, []

    def write_or_stop(path: Any, content: Any) -> None:
        write(path, content)
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nu_ensembles.storage.write_sealed_json", write_or_stop)
        with pytest.raises(KeyboardInterrupt):
            runpy.run_path(script)
    resumed = runpy.run_path(script)["ensemble"]
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["started", "resumed", "finished"]
    x, y = nu.datasets.load_digits()
    unbroken = nu.fit("mlp", x[:100] / 16, y[:100], n_members=3, epochs=60, seed=0)
    np.testing.assert_array_equal(resumed.predict_proba(x / 16), unbroken.predict_proba(x / 16))


def test_the_focal_loss_pays_less_attention_to_what_is_certain() -> None:
    focal = runpy.run_path(str(ROOT / "examples" / "own_method.py"))["Focal"]
    # softmax(0, ln 3) = (1/4, 3/4): for the second class p = 3/4.
    batch = Batch(jnp.array([[0.0, np.log(3.0)]]), jnp.array([1]), jnp.ones(1))
    assert focal(0.0).loss(lambda *rows: rows, batch) == pytest.approx(-np.log(3 / 4))
    assert focal(2.0).loss(lambda *rows: rows, batch) == pytest.approx(-np.log(3 / 4) / 16)


def test_the_page_on_methods_of_your_own_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), vars(module))

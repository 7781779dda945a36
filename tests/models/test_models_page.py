"""Every Python block of `docs/models.md` runs; what the page says of parameter counts is so."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from nu_ensembles import models

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, list[tuple[int, str]]]:
    """The blocks under each heading with the lines they start at; those before the first heading are under ""."""
    text = PAGE.read_text(encoding="utf-8")
    headings = [("", 0), *((match[1], match.start()) for match in HEADING.finditer(text))]
    found: dict[str, list[tuple[int, str]]] = {name: [] for name, _ in headings}
    for block in BLOCK.finditer(text):
        name = [name for name, start in headings if start <= block.start()][-1]
        found[name].append((text.count("\n", 0, block.start(1)), block[1]))
    return found


SECTIONS = sections()


@pytest.mark.parametrize("name", [name for name, blocks in SECTIONS.items() if name and blocks])
def test_the_examples_of_a_section_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # dataclasses look their module up
    for line, block in SECTIONS[""] + SECTIONS[name]:
        # Blank lines before the block make a traceback point at the page's own line.
        exec(compile("\n" * line + block, str(PAGE), "exec", dont_inherit=True), vars(page))
    probabilities = page.ensemble.predict_proba(page.x)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "mlp_large", "lenet", "wide_resnet"])
def test_the_table_states_the_true_parameter_count(name: str) -> None:
    variables = jax.eval_shape(models.build(name, 10).init, jax.random.key(0), np.ones((1, 32, 32, 3)))
    count = sum(leaf.size for leaf in jax.tree.leaves(variables))
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |"))
    assert row.endswith(f"| {count:,} |")


def test_the_table_states_the_true_parameter_count_of_the_network_for_series() -> None:
    variables = jax.eval_shape(models.signal(10).init, jax.random.key(0), np.ones((1, 64, 2)))
    count = sum(leaf.size for leaf in jax.tree.leaves(variables))
    assert f"| {count:,} (length 64, 2 channels) |" in PAGE.read_text(encoding="utf-8")

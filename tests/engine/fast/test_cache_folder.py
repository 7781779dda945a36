"""The folder of compiled programs is used only where nobody else can put programs."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pytest

from nu_ensembles.engine.fast import compilation


@pytest.mark.skipif(os.name == "nt", reason="permission bits are POSIX")
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setenv(compilation.SWITCH, str(tmp_path))
    # Tests that came before may have switched the cache on.
    monkeypatch.setattr(type(jax.config), "values", {"jax_compilation_cache_dir": None})
    monkeypatch.setattr(compilation.jax.config, "update", lambda name, value: used.append(name))
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="others can write there and would have them run"):
        compilation.use_persistent_cache.__wrapped__()
    assert used == []
    tmp_path.chmod(0o755)
    compilation.use_persistent_cache.__wrapped__()
    assert "jax_compilation_cache_dir" in used

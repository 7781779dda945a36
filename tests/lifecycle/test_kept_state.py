"""Where a state cannot be kept, one sentence says so."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles.lifecycle.state import KeptState


def fails_with(number: int) -> Any:
    def fails(*arguments: Any, **_: Any) -> NoReturn:
        raise OSError(number, os.strerror(number), arguments[0])

    return fails


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_folder_that_cannot_be_made_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptState(tmp_path / "without-fold-1-")
    monkeypatch.setattr(os, "mkdir", fails_with(number))
    with pytest.raises(InputError, match=rf"without-fold-1- cannot be written \({os.strerror(number)}\): choose"):
        kept.write("0" * 64, {"w": np.ones(2)})


def test_what_cannot_be_removed_is_named_and_the_work_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptState(tmp_path / "kept")
    kept.write("0" * 64, {"w": np.ones(2)})
    with LifeFolder(tmp_path) as life:
        life.begin()
        with monkeypatch.context() as read_only:
            read_only.setattr(os, "unlink", fails_with(errno.EROFS))
            for remove in (kept.clear, life.end):
                with pytest.raises(InputError, match=r"cannot be removed .* give the same command again"):
                    remove()
        assert life.unfinished
        assert kept.index.exists()
        kept.clear()
        life.end()
        assert not life.unfinished

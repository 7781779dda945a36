"""A run folder: what was asked, where it ran, how it went. The one place that writes one.

config.yaml        the settings          environment.json   machine, versions
metrics.json       a row per evaluation  log.txt            what happened when
checkpoints/       to resume from        model/             the trained ensemble
unfinished         until the model is saved

Of several processes (`jax.distributed`) the first one writes it; checkpoints are written by all, each its own.
A training in several stages has a folder in checkpoints/ for each of them, and files there for what they came to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles._version import __version__
from nu_ensembles.checks import check_positive
from nu_ensembles.contents import checksum, classes_to_json, parsed, stored, unfit
from nu_ensembles.engine import processes
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.ensemble.files import MANIFEST
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles.lifecycle.state import other_work

CONFIG, MODEL = "config.yaml", "model"
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "scikit-learn")


def environment() -> dict[str, Any]:
    """Machine and versions, for everything that is measured."""
    device = jax.devices()[0]
    return {
        "nu_ensembles": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "backend": device.platform,
        "device": device.device_kind,
        "n_devices": len(jax.devices()),
        "versions": {name: _version(name) for name in PACKAGES},
    }


@functools.cache
def _version(package: str) -> str:
    """Of what is installed; looked up once, which takes longer than a small task of a cluster."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResultIndex:
    """What the index of a remembered array holds."""

    fingerprint: str = stored(checksum)
    sha256: str = stored(checksum)


class RunFolder(LifeFolder):
    """A folder that a run fills as it goes. Within `with` nobody else works in it.

    Args:
      folder: new, or that of an unfinished run if `resume`.
      config: the settings, plain values. A resumed run must have the same.
    """

    def __init__(self, folder: str | Path, config: dict[str, Any], resume: bool, checkpoint_seconds: float) -> None:
        super().__init__(folder)
        self.config, self.resume = config, resume
        self.checkpoint_seconds = check_positive(checkpoint_seconds, "checkpoint_seconds", zero_allowed=True)
        self.checkpoints = CheckpointFolder(self.folder / "checkpoints", checkpoint_seconds, resume)
        self._rows: dict[int, dict[str, Any]] = {}

    @classmethod
    @contextlib.contextmanager
    def wanted(
        cls,
        folder: str | Path | None,
        config: Callable[[], dict[str, Any]],
        resume: bool,
        checkpoint_seconds: float,
        classes: np.ndarray,
    ) -> Iterator[RunFolder | None]:
        """The run folder that the user asked for, or None.

        Args:
          config: gives the settings, plain values.
          classes: `[C]`, refused now if they could not be saved at the end.
        """
        if folder is None:
            if resume:
                raise InputError("resume=True needs the run_folder of the run that is to go on.")
            yield None
            return
        classes_to_json(classes)
        arguments = folder, config(), resume, checkpoint_seconds
        if processes.n_processes() == 1:
            with cls(*arguments) as run:
                yield run
            return
        with contextlib.ExitStack() as stack:
            run = cls(*arguments) if processes.is_first() else FollowingRun(*arguments)
            processes.told_by_the_first(lambda: int(stack.enter_context(run).resume))
            yield run

    def __enter__(self) -> Self:
        self.enter()
        try:
            self._start_or_resume()
        except BaseException:
            self.leave()
            raise
        return self

    @property
    def model(self) -> Path:
        """Where the trained ensemble goes."""
        return self.folder / MODEL

    def _start_or_resume(self) -> None:
        if self.model.exists() and not self.unfinished:
            self._clear()  # a kill may have left some of it
            raise InputError(f"{self.folder} holds a finished run; choose another folder.")
        if self.started and not self.resume:
            raise InputError(f"{self.folder} exists; resume the run in it, or choose another folder.")
        if (self.folder / CONFIG).exists():
            self._refuse_other(self.config)
        self.begin()
        if not (self.folder / CONFIG).exists():
            storage.write_json(self.folder / "environment.json", environment())
            storage.write_yaml(self.folder / CONFIG, self.config)
        self.log("resumed" if self.started else "started")

    def _refuse_other(self, config: dict[str, Any]) -> None:
        """Checkpoints know what they belong to; this also catches a run that was killed before its first one."""
        stored = storage.read_yaml(self.folder / CONFIG, "The settings of a run")
        # The same way that they were written: lists for tuples, plain numbers for NumPy's.
        wanted = json.loads(json.dumps(config, default=lambda value: value.tolist()))
        known = stored if isinstance(stored, dict) else {}
        other = [name for name, value in wanted.items() if known.get(name) != value]
        if other:
            raise InputError(
                f"The run in {self.folder} was started with another {' and '.join(other)}; use the same to resume it, "
                "or start again in another folder."
            )

    def log(self, message: str) -> None:
        """Adds a line to the log. No work is given up because the log cannot be written."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError), (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{now} {message}\n")

    def add_row(self, row: dict[str, Any]) -> None:
        """Adds the scores of an evaluation. The file is never read: a resumed run takes them from its checkpoint."""
        self._rows[row["step"]] = row
        storage.write_json(self.folder / "metrics.json", self.rows())

    def rows(self) -> list[dict[str, Any]]:
        return [self._rows[step] for step in sorted(self._rows)]

    def stage(self, name: str) -> CheckpointFolder:
        """Where one stage of a training keeps its checkpoints; the only one, which has no name, in the run's own."""
        if not name:
            return self.checkpoints
        return CheckpointFolder(self.checkpoints.folder / name, self.checkpoint_seconds, self.resume)

    def remembered(self, name: str, fingerprint: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that takes long to compute: from an earlier life of this run, or computed and kept.

        Args:
          name: of the array; stages whose names start with it end with it.
          fingerprint: of what it depends on.
        """
        index, arrays = (self.checkpoints.folder / f"{name}.{suffix}" for suffix in ("json", "safetensors"))
        if not index.exists():
            array = compute()
            storage.make_folder(self.checkpoints.folder)
            checksum = storage.save_arrays(arrays, {"array": array})
            storage.write_sealed_json(index, {"fingerprint": fingerprint, "sha256": checksum})
            self._clear_stages(f"{name}-*/")
            return array
        where = f"The index of a result {index}"
        entry = parsed(ResultIndex, storage.read_sealed_json(index, "The index of a result"), where)
        if entry.fingerprint != fingerprint:
            raise other_work(f"The result {index}")
        found = storage.load_arrays(arrays, entry.sha256)
        if found.keys() != {"array"}:
            raise unfit(f"The file {arrays}", "one array", ", ".join(found))
        return found["array"]

    def _clear_stages(self, pattern: str) -> None:
        for place in self.checkpoints.folder.glob(pattern):
            shutil.rmtree(place, ignore_errors=True)

    def finish(self, ensemble: Ensemble, also_in: Sequence[Path] = ()) -> None:
        """Saves what came of the run, and only then removes what only an unfinished run needs.

        Args:
          also_in: further places for the model.
        """
        for place in (self.model, *also_in):
            if not _holds(place, self.model):
                ensemble.save(place)
        self.end()
        self._clear()
        self.log("finished")

    def _clear(self) -> None:
        for each in self.checkpoints.folder.glob("*"):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            else:
                storage.remove_file(each)


class FollowingRun(RunFolder):
    """The run folder as other processes than the first see it: checkpoints are theirs to write, all else is not."""

    def log(self, message: str) -> None:
        pass

    def add_row(self, row: dict[str, Any]) -> None:
        self._rows[row["step"]] = row

    def remembered(self, name: str, fingerprint: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        return compute()

    def finish(self, ensemble: Ensemble, also_in: Sequence[Path] = ()) -> None:
        pass


def _holds(place: Path, model: Path) -> bool:
    """Whether a place holds the model already: the run was killed after it had been saved there."""
    manifests = [folder / MANIFEST for folder in (place, model)]
    return all(each.is_file() for each in manifests) and len({each.read_bytes() for each in manifests}) == 1

"""A run folder: what was asked, where it ran, how it went. The one place that writes one.

config.yaml        the settings          environment.json   machine, versions
metrics.json       a row per evaluation  log.txt            what happened when
checkpoints/       to resume from        model/             the trained ensemble

A training in several stages has a folder in checkpoints/ for each of them, and files there for what they came to.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles._version import __version__
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.errors import InputError

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "scikit-learn")


def environment() -> dict[str, Any]:
    """Machine and versions, for everything that is measured."""
    device = jax.devices()[0]
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "nu_ensembles": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "backend": device.platform,
        "device": device.device_kind,
        "n_devices": len(jax.devices()),
        "versions": versions,
    }


class RunFolder:
    """A folder that a run fills as it goes.

    Args:
      folder: new, or that of an unfinished run if `resume`.
      config: the settings, plain values. A resumed run must have the same.
    """

    def __init__(self, folder: str | Path, config: dict[str, Any], resume: bool, checkpoint_seconds: float) -> None:
        self.folder = Path(folder)
        if (self.folder / "model").exists():
            raise InputError(f"{self.folder} holds a finished run; choose another folder.")
        started = self.folder.is_dir() and any(self.folder.iterdir())
        if started and not resume:
            raise InputError(f"{self.folder} exists; resume the run in it, or choose another folder.")
        if (self.folder / "config.yaml").exists():
            self._refuse_other(config)
        else:
            self._start(config)
        self.log("resumed" if started else "started")
        self.resume, self.checkpoint_seconds = resume, checkpoint_seconds
        self.checkpoints = CheckpointFolder(self.folder / "checkpoints", checkpoint_seconds, resume)
        self._rows = {row["step"]: row for row in self._read_rows()}

    @classmethod
    def wanted(
        cls, folder: str | Path | None, config: dict[str, Any], resume: bool, checkpoint_seconds: float
    ) -> RunFolder | None:
        """The run folder that the user asked for, or None."""
        if folder is not None:
            return cls(folder, config, resume, checkpoint_seconds)
        if resume:
            raise InputError("resume=True needs the run_folder of the run that is to go on.")
        return None

    def _start(self, config: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The run folder {self.folder} cannot be made ({error.strerror}); choose another."
            ) from error
        storage.write_json(self.folder / "environment.json", environment())
        storage.write_yaml(self.folder / "config.yaml", config)

    def _refuse_other(self, config: dict[str, Any]) -> None:
        """Checkpoints know what they belong to; this also catches a run that was killed before its first one."""
        stored = storage.read_yaml(self.folder / "config.yaml", "The settings of a run")
        # The same way that they were written: lists for tuples, plain numbers for NumPy's.
        wanted = json.loads(json.dumps(config, default=lambda value: value.tolist()))
        known = stored if isinstance(stored, dict) else {}
        other = [name for name, value in wanted.items() if known.get(name) != value]
        if other:
            raise InputError(
                f"The run in {self.folder} was started with another {' and '.join(other)}; use the same to resume it, "
                "or start again in another folder."
            )

    def _read_rows(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.json"
        return storage.read_json(path, "the metrics of a run") if path.exists() else []

    def log(self, message: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{now} {message}\n")

    def add_row(self, row: dict[str, Any]) -> None:
        """Adds (or, after a resume, repeats) the scores of an evaluation."""
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
            self.checkpoints.folder.mkdir(parents=True, exist_ok=True)
            checksum = storage.save_arrays(arrays, {"array": array})
            storage.write_sealed_json(index, {"fingerprint": fingerprint, "sha256": checksum})
            self._clear_stages(f"{name}-*/")
            return array
        entry = storage.read_sealed_json(index, "the index of a result")
        if entry["fingerprint"] != fingerprint:
            raise InputError(
                f"The result {index} belongs to other data or settings; use the same ones to resume the run, or start "
                "again in another folder."
            )
        return storage.load_arrays(arrays, entry["sha256"])["array"]

    def _clear_stages(self, pattern: str) -> None:
        for place in self.checkpoints.folder.glob(pattern):
            self.stage(place.name).clear()
            place.rmdir()

    def finish(self) -> None:
        """Removes what only an unfinished run needs."""
        self.checkpoints.clear()
        self._clear_stages("*/")
        for suffix in ("json", "safetensors"):
            for result in self.checkpoints.folder.glob(f"*.{suffix}"):
                result.unlink()
        self.log("finished")

"""Walks a fit through the package: what is called, room by room, in the order of first calls.

`python docs/make_tables.py --measure walk` walks it anew. What imports run, and what loads the data, is no part of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from makers.files import Maker, store, stored, table

# Of what is called in one visit to a room.
MOST_NAMES = 6


def walk(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """(file below the package, function) of everything that is called, in the order of the first calls.

    Functions within functions count with those.
    """
    import nu_ensembles

    root = Path(nu_ensembles.__file__).parent
    seen: dict[tuple[str, str], None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(f"{root}/"):
            return
        name = code.co_qualname.split(".<locals>")[0]
        if not name.startswith("<") and not code.co_name.startswith("__"):
            seen.setdefault((str(Path(code.co_filename).relative_to(root)), name))

    sys.setprofile(watch)
    threading.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def a_fit() -> Callable[[], Any]:
    """The default classifier on digits: beta and the number of steps are searched for, then the ensemble is trained."""
    import numpy as np

    import nu_ensembles as nu

    X, y = nu.datasets.load_digits()
    rows = np.arange(260)
    clf = nu.NuEnsembleClassifier(n_members=3, max_iter=20, random_state=0)
    return lambda: clf.fit(X[rows[:60]], y[rows[:60]], X_unlabeled=X[rows[60:]])


def visits(calls: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """(room, functions that are called there for the first time), one visit after another."""
    for room, group in groupby(calls, key=lambda call: call[0].split("/")[0].removesuffix(".py")):
        yield room, [name for _, name in group]


def of_a_fit() -> str:
    """The walk as a table."""
    calls: list[tuple[str, str]] = stored("walk-fit")["calls"]
    stops = list(visits(calls))
    rows = [
        [room, ", ".join(f"`{name}`" for name in names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")]
        for room, names in stops
    ]
    files = {file for file, _ in calls}
    count = f"{len(calls)} functions in {len(files)} files, {len(stops) - 1} changes of room."
    return "\n".join([*table(["room", "what is called there first"], rows), "", count, ""])


def measure() -> None:
    """In a process of its own, which has compiled and traced nothing yet."""
    environment = {**os.environ, "NU_ENSEMBLES_COMPILATION_CACHE": "off", "PYTHONWARNINGS": "ignore"}
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    script += "import json; from makers.walk import a_fit, walk; print(json.dumps(walk(a_fit())))"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    store("walk-fit", {"command": "python docs/make_tables.py --measure walk", "calls": json.loads(done.stdout)})


MAKER = Maker(tables={"walk-fit.md": of_a_fit}, measure=measure)

"""Walks a fit through the package and writes what is called, room by room, in the order of first calls.

`python docs/walk.py` prints the walk of a fit with beta chosen by itself and writes `docs/generated/walk-fit.md`, which
`docs/architecture.md` shows; `--check` only compares. Functions nested in others count with those.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

PAGE = Path(__file__).parent / "generated" / "walk-fit.md"
# What stands for itself and would only lengthen the walk.
MOST_NAMES = 6


def walk(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """(file below the package, function) of everything that is called, in the order of the first calls."""
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


def room_of(file: str) -> str:
    """The folder of the package that a file stands in, or the module at its root."""
    return file.split("/")[0].removesuffix(".py")


def visits(calls: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """(room, functions that are called there for the first time), one visit after another."""
    for room, group in groupby(calls, key=lambda call: room_of(call[0])):
        yield room, [name for _, name in group]


def a_fit() -> Callable[[], Any]:
    """The default classifier on digits: beta and the number of steps are searched for, then the ensemble is trained.

    What imports run, and what loads the data, is not part of the walk.
    """
    import numpy as np

    import nu_ensembles as nu

    X, y = nu.datasets.load_digits()
    rows = np.arange(260)
    clf = nu.NuEnsembleClassifier(n_members=3, max_iter=20, random_state=0)
    return lambda: clf.fit(X[rows[:60]], y[rows[:60]], X_unlabeled=X[rows[60:]])


def page(calls: list[tuple[str, str]]) -> str:
    """The walk as a table."""
    lines = ["| room | what is called there first |", "| --- | --- |"]
    stops = list(visits(calls))
    for room, names in stops:
        shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
        lines.append(f"| {room} | {shown}{', …' if len(names) > MOST_NAMES else ''} |")
    files = {file for file, _ in calls}
    lines += ["", f"{len(calls)} functions in {len(files)} files, {len(stops) - 1} changes of room."]
    return "\n".join(lines) + "\n"


def main() -> int:
    import os

    os.environ["NU_ENSEMBLES_COMPILATION_CACHE"] = "off"
    warnings.simplefilter("ignore")
    made = page(walk(a_fit()))
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != made)
    PAGE.write_text(made, encoding="utf-8")
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())

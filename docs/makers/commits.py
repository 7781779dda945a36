"""Which commits have the code that results were made with: results/commits.json, and the table of it.

Results name their code, since where they are made may be no repository: by the version of the results, older ones by
a fingerprint of the source. Every commit is asked for its own. A fingerprint without a commit is of code between two.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from makers.files import RESULTS, ROOT, Maker, store, stored, table

SOURCE, PACKAGE = "src", "src/nu_ensembles"
ASK = """
try:
    from nu_ensembles.results_version import RESULTS_CODE
except ImportError:
    from nu_ensembles.studies.provenance import code_fingerprint
    RESULTS_CODE = code_fingerprint()
print(RESULTS_CODE)
"""


# Versions of the results that the source declares, of which any commit may make more.
DECLARED = "results-"


def git(*arguments: str) -> bytes:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True).stdout


def codes_in(path: Path) -> list[str]:
    """The codes of a file of results, one for each cell of a study or row of a benchmark that names it."""
    result = json.loads(path.read_text())
    if "makers" in result:
        return [result["makers"][cell["maker"]]["code"] for cell in result["cells"]]
    return [row["code"] for row in result.get("rows", ()) if "code" in row]


def code_of(commit: str) -> str:
    """That of a commit; "" where there was none yet."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, SOURCE))) as archive:
            archive.extractall(folder, filter="data")
        environment = {"PYTHONPATH": str(Path(folder) / "src"), "JAX_PLATFORMS": "cpu"}
        asked = subprocess.run(
            (sys.executable, "-c", ASK), env=environment, capture_output=True, text=True, check=False
        )
    return asked.stdout.strip()


def commits() -> str:
    """A row for each code: its first and last commit, and how much of which results it made."""
    known = stored("commits")
    made: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(RESULTS.glob("*.json")):
        for code in codes_in(path):
            made[code][path.stem] += 1
    rows = []
    for code, cells in sorted(made.items(), key=lambda item: -item[1].total()):
        between = dict.fromkeys(commit[:10] for commit in known.get(code) or ())
        unknown = "every commit that declares it" if code.startswith(DECLARED) else "between two commits"
        where = " to ".join(f"`{commit}`" for commit in between) or unknown
        rows.append([f"`{code}`", where, ", ".join(f"{name} {n}" for name, n in sorted(cells.items()))])
    return "\n".join([*table(["code", "commits", "cells"], rows), ""])


def measure() -> None:
    """Asks every commit for its code, which takes seconds for each that changed the package."""
    wanted = {code for path in RESULTS.glob("*.json") for code in codes_in(path)}
    found: dict[str, list[str] | None] = dict.fromkeys(sorted(wanted))
    known: dict[bytes, str] = {}
    for commit in git("log", "--first-parent", "--reverse", "--format=%H", "--", PACKAGE).decode().split():
        tree = git("rev-parse", f"{commit}:{PACKAGE}")
        if tree not in known:
            known[tree] = code_of(commit)
        if known[tree] in wanted:
            first, *_ = found[known[tree]] or [commit]
            found[known[tree]] = [first, commit]
    store("commits", found)
    missing = [code for code, commits in found.items() if commits is None]
    print(f"{len(found) - len(missing)} of {len(found)} codes have a commit" + "".join(f"; not {c}" for c in missing))


MAKER = Maker(tables={"commits.md": commits}, measure=measure)

"""From pip install to a report of one's own csv: what three commands take, what they install, how fast it imports.

    python benchmarks/first_report.py [--repeats 9] [--out FILE]

Builds the wheel, makes a fresh environment, and times in it, one after another,

    pip install nu-ensembles
    nu-ensembles fit train.csv --target outcome --unlabeled more.csv --keep customer --out model
    nu-ensembles report model test.csv

on the files of examples/customers.py: 300 labels, 10,000 rows without, 1,000 to report on. Nothing is cached before:
pip downloads everything, Python compiles every file, and JAX's cache is an empty folder. Then the imports, side by
side: the classifier, and `import jax, sklearn`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import Recording

ROOT = Path(__file__).parents[1]
IMPORTS = {
    "import nu_ensembles": "import nu_ensembles",
    "the classifier": "from nu_ensembles import NuEnsembleClassifier",
    "jax and sklearn": "import jax, sklearn",
}
SIZES = """
import importlib.metadata as metadata, json
found = {}
for each in metadata.distributions():
    files = [each.locate_file(file) for file in each.files or []]
    if each.name in ("pip", "setuptools"):  # which came with the environment
        continue
    found[each.name] = sum(file.stat().st_size for file in files if file.is_file())
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="of each import")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    command = "python benchmarks/first_report.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], folder)
        (wheel,) = folder.glob("*.whl")
        run([sys.executable, ROOT / "examples" / "customers.py"], folder)
        run([sys.executable, "-m", "venv", folder / "venv"], folder)
        bin_ = folder / "venv" / "bin"
        recording = Recording("first-report", command, ("what",), arguments.out)
        steps = {
            "install": [bin_ / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", wheel],
            "fit": [
                *(bin_ / "nu-ensembles", "fit", "train.csv", "--target", "outcome", "--unlabeled", "more.csv"),
                *("--keep", "customer", "--out", "model"),
            ],
            "report": [bin_ / "nu-ensembles", "report", "model", "test.csv"],
        }
        seconds = {what: timed(step, folder) for what, step in steps.items()}
        recording.add({"what": "three commands", "seconds": seconds, "total": round(sum(seconds.values()), 1)})
        recording.add({"what": "installed", "bytes": json.loads(run([bin_ / "python", "-c", SIZES], folder))})
        recording.add({"what": "imports", "seconds": imports(bin_ / "python", folder, arguments.repeats)})
    for row in recording.rows:
        print(row)


def run(command: list[Any], folder: Path) -> str:
    """What a command prints, in an environment that has no cache of JAX's yet."""
    home = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JAX", "XLA"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=home | {"XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(command: list[Any], folder: Path) -> float:
    start = time.perf_counter()
    run(command, folder)
    return round(time.perf_counter() - start, 1)


def imports(python: Path, folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Median and fastest of fresh processes, in turns, so that a busy moment meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in ("nothing", *IMPORTS)}
    for _ in range(repeats + 1):
        for name, code in {"nothing": "pass", **IMPORTS}.items():
            start = time.perf_counter()
            run([python, "-c", code], folder)
            found[name].append(time.perf_counter() - start)
    # The first round reads files that no process has read before.
    return {
        name: {"median": round(statistics.median(times[1:]), 3), "fastest": round(min(times[1:]), 3)}
        for name, times in found.items()
    }


if __name__ == "__main__":
    main()

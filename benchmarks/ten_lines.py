"""How long README's ten lines take: without compiled programs, in the next process, and warm beside early stopping.

    python benchmarks/ten_lines.py --out results/ten-lines.json [--source SRC --version NAME] [--repeats 2]

Wall and processor seconds. `--source` measures the package in another folder (an older version's `src`), `--version`
names it in the file. Warm fits are those of the example and of `EnsembleClassifier("standard", early_stopping=True)`
with the same arguments, on the same rows and on the labelled ones alone; the least of several.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nu_ensembles.engine.fast.compilation import SWITCH
from recording import Recording

ROOT = Path(__file__).resolve().parents[1]
WARM = """
import json, time
auto = lambda: nu.NuEnsembleClassifier(n_members=5, max_iter=100, random_state=0)
standard = lambda: nu.EnsembleClassifier("standard", 5, early_stopping=True, max_iter=100, random_state=0)
def seconds(make, unlabelled_rows):
    found = []
    for _ in range(4):  # the first compiles
        start = time.process_time()
        make().fit(X[labelled], y[labelled], X_unlabeled=unlabelled_rows)
        found.append(time.process_time() - start)
    return min(found)
U = X[unlabelled]
times = {"auto": seconds(auto, U), "standard": seconds(standard, U), "standard_alone": seconds(standard, None)}
print(json.dumps(times))
"""


def ten_lines() -> str:
    """The example, as README has it."""
    found = re.search(r"## Ten lines\n+```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None, "README has an example"
    return found[1]


def run(program: str, source: Path, cache: str) -> tuple[str, float, float]:
    """What a fresh process prints, its seconds by the wall, and those of the processor."""
    environment = {**os.environ, "PYTHONPATH": str(source), SWITCH: cache}
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout, wall, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    parser.add_argument("--version", default="this")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    recording = Recording("ten-lines", "python benchmarks/ten_lines.py", ("version", "repeat"), options.out)
    program = ten_lines()
    for repeat in range(options.repeats):
        with tempfile.TemporaryDirectory() as cache:
            first, following = (run(program, options.source, cache)[1:] for _ in range(2))
            printed, *_ = run(program + WARM, options.source, cache)
        row = {"version": options.version, "repeat": repeat, "load": os.getloadavg()[0]}
        row |= {"first_wall": first[0], "first_processor": first[1]}
        row |= {"next_wall": following[0], "next_processor": following[1], "warm": json.loads(printed.splitlines()[-1])}
        recording.add(row)
        print(row, flush=True)


if __name__ == "__main__":
    main()

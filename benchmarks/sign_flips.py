"""Whether the tests notice a wrong sign or index in a fast path: each is flipped in a copy, one at a time.

    python benchmarks/sign_flips.py [--only TEXT] [--missing] [--processes 2] [--out FILE]

The flips, and the tests that should fail under each, are in `sign_flips.yaml`. Those tests run on the sources as they
are first: there they must pass. Some 15 processor seconds a flip; with pytest and what the tests need installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[1]
PACKAGES = REPOSITORY / "src"
DECLARED = Path(__file__).with_suffix(".yaml")
OUT = REPOSITORY / "results" / "sign-flips.json"


def flips(only: str = "") -> list[dict[str, Any]]:
    """The declared flips whose file or test has this text, each with the arguments of pytest.

    Raises:
      ValueError: a text that does not stand in its file exactly once.
    """
    declared = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    found = []
    for flip in declared["flips"]:
        n_places = (PACKAGES / "nu_ensembles" / flip["file"]).read_text(encoding="utf-8").count(flip["old"])
        if n_places != 1:
            raise ValueError(f"{flip['old']!r} stands in {flip['file']} {n_places} times; change {DECLARED.name}.")
        if only in flip["file"] or only in flip["tests"]:
            found.append(flip | {"arguments": declared["selections"][flip["tests"]]})
    return found


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails."""

    name: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.name is None:
            self.name = report.nodeid


def noticed(flip: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What becomes of the tests under a flip, or of a flip's tests without it where there is no `old`."""
    began = time.process_time()
    copy = Path(tempfile.mkdtemp(dir=folder))
    shutil.copytree(PACKAGES, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    if "old" in flip:
        file = copy / "nu_ensembles" / flip["file"]
        file.write_text(file.read_text(encoding="utf-8").replace(flip["old"], flip["new"]), encoding="utf-8")
    os.chdir(REPOSITORY)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    log = os.open(copy / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)

    import pytest

    first = FirstFailure()
    options = ["-x", "-p", "no:xdist", "-p", "no:cacheprovider", *flip["arguments"]]
    code = int(pytest.main(options, plugins=[first]))
    import nu_ensembles

    assert Path(nu_ensembles.__file__).is_relative_to(copy), "the tests ran on other sources"
    shutil.rmtree(copy)
    return flip | {"exit": code, "by": first.name, "processor_seconds": round(time.process_time() - began, 1)}


def place_of(flip: dict[str, Any]) -> tuple[str, ...]:
    """What makes it this flip and no other."""
    return flip["file"], flip["old"], flip["new"]


def is_noticed(flip: dict[str, Any]) -> bool:
    """Whether a test failed under the flip, as opposed to pytest itself."""
    return flip["exit"] == 1 and flip["by"] is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="flips in files, or noticed by tests, whose name has this text")
    parser.add_argument("--missing", action="store_true", help="only those that the file does not hold as noticed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    chosen, known, again = flips(options.only), [], []
    if options.missing:
        places = [place_of(flip) for flip in flips()]
        earlier = json.loads(options.out.read_text(encoding="utf-8"))
        known = [flip for flip in earlier["flips"] if is_noticed(flip) and place_of(flip) in places]
        again = [flip for flip in chosen if flip["tests"] in earlier["failing_as_it_is"]]
        chosen = [flip for flip in chosen if place_of(flip) not in map(place_of, known)]
    as_it_is = {flip["tests"]: {"tests": flip["tests"], "arguments": flip["arguments"]} for flip in [*again, *chosen]}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(folder, "compiled")))
        import flax.linen  # noqa: F401  # what all tests import, once; the package itself only in each process
        import optax  # noqa: F401
        import pytest  # noqa: F401

        results = []
        with multiprocessing.get_context("fork").Pool(options.processes, maxtasksperchild=1) as pool:
            for done in pool.imap(partial(noticed, folder=Path(folder)), [*as_it_is.values(), *chosen], chunksize=1):
                del done["arguments"]
                results.append(done)
                passed = "passed" if done["exit"] == 0 else done["by"] or f"pytest ended with {done['exit']}"
                print(done.get("file", "as it is"), "|", done.get("new", done["tests"]), "|", passed, flush=True)
    plain, wrong = results[: len(as_it_is)], results[len(as_it_is) :]
    wrong = sorted([*known, *wrong], key=place_of)
    survived = [flip for flip in wrong if not is_noticed(flip)]
    broken = [each["tests"] for each in plain if each["exit"] != 0]
    print(f"{len(wrong) - len(survived)} of {len(wrong)} flips were noticed.")
    report = {
        "n_flips": len(wrong),
        "n_noticed": len(wrong) - len(survived),
        "failing_as_it_is": broken,
        "flips": wrong,
    }
    options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if survived or broken:
        sys.exit("A flip went unnoticed, or tests fail as it is.")


if __name__ == "__main__":
    main()

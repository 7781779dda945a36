"""All makers by name, and the command that runs them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from makers import (
    benchmarks,
    choices,
    clusters,
    commits,
    corruptions,
    deployment,
    gallery,
    large_rows,
    metrics,
    own_tables,
    performance,
    readme,
    rivals,
    speed,
    studies,
    taken_elsewhere,
    theory,
    torture,
    walk,
)
from makers.files import ROOT, Maker

MAKERS: dict[str, Maker] = {
    "readme": readme.MAKER,
    "benchmarks": benchmarks.MAKER,
    "choices": choices.MAKER,
    "clusters": clusters.MAKER,
    "studies": studies.MAKER,
    "rivals": rivals.MAKER,
    "performance": performance.MAKER,
    "corruptions": corruptions.MAKER,
    "deployment": deployment.MAKER,
    "gallery": gallery.MAKER,
    "large-rows": large_rows.MAKER,
    "metrics": metrics.MAKER,
    "taken-elsewhere": taken_elsewhere.MAKER,
    "theory": theory.MAKER,
    "torture": torture.MAKER,
    "tables": own_tables.MAKER,
    "walk": walk.MAKER,
    "speed": speed.MAKER,
    "commits": commits.MAKER,
}


def main(arguments: Sequence[str] | None = None, description: str | None = None) -> int:
    """Writes or checks the documentation's parts and returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say whether the texts are up to date")
    what.add_argument("--measure", choices=[name for name, maker in MAKERS.items() if maker.measure])
    parser.add_argument("--only", choices=MAKERS, help="one of the makers")
    given = parser.parse_args(arguments)
    only = given.measure or given.only
    makers = [MAKERS[only]] if only else list(MAKERS.values())
    if given.check:
        outdated = [path.relative_to(ROOT).as_posix() for maker in makers for path in maker.outdated()]
        for path in outdated:
            print(f"{path} is not what the results give: run `make tables`.")
        return 1 if outdated else 0
    for maker in makers:
        if given.measure and maker.measure is not None:
            maker.measure()
        maker.write()
    return 0

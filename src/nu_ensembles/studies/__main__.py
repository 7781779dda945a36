"""`python -m nu_ensembles.studies NAME …`: the studies on machines without the command line's packages.

PYTHONPATH=src python -m nu_ensembles.studies table1 --datasets cifar10 --models lenet --seeds 5 --out runs/table1
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles.studies.options import RunOptions, StudyOptions
from nu_ensembles.studies.registry import STUDIES

CONVERTERS: dict[str, Any] = {
    "tuple[str, ...]": lambda text: tuple(text.split(",")),
    "tuple[int, ...]": lambda text: tuple(int(each) for each in text.split(",")),
    "int": int,
    "int | None": int,
    "float | None": float,
    "str": str,
    "Path | None": Path,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a study and returns the exit code."""
    parser = argparse.ArgumentParser("python -m nu_ensembles.studies", description=__doc__)
    parser.add_argument("name", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--no-page", action="store_true", help="Write no report.html (which needs matplotlib).")
    hidden = ("backend",)
    for options in (StudyOptions, RunOptions):
        for field in dataclasses.fields(options):
            if field.name not in hidden:
                _add(parser, field)
    given = vars(parser.parse_args(arguments))
    from nu_ensembles.studies.conduct import conduct

    def chosen(options: type) -> Any:
        names = [field.name for field in dataclasses.fields(options) if field.name not in hidden]
        return options(**{name: given[name] for name in names})

    try:
        _, progress = conduct(
            given["name"],
            chosen(StudyOptions),
            given["out"],
            chosen(RunOptions),
            export=given["export"],
            page=not given["no_page"],
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(progress)
    return 0


def _add(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    flag = f"--{field.name.replace('_', '-')}"
    if field.type == "bool":
        parser.add_argument(flag, action="store_true")
    else:
        parser.add_argument(flag, type=CONVERTERS[str(field.type)], default=field.default)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m nu_ensembles_studies NAME …`: the studies on machines without the command line's packages.

PYTHONPATH=src python -m nu_ensembles_studies table1 --datasets cifar10 --models lenet --seeds 5 --out runs/table1
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.options import StudyOptions, StudyRunOptions
from nu_ensembles_studies.registry import STUDIES

CONVERTERS: dict[str, Any] = {
    "tuple[str, ...]": lambda text: tuple(text.split(",")),
    "tuple[int, ...]": lambda text: tuple(int(each) for each in text.split(",")),
    "int": int,
    "int | None": int,
    "float": float,
    "float | None": float,
    "str | None": str,
    "str": str,
    "Path | None": Path,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a study and returns the exit code."""
    parser = argparse.ArgumentParser("python -m nu_ensembles_studies", description=__doc__)
    parser.add_argument("name", choices=sorted(STUDIES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--no-page", action="store_true", help="Write no report.html (which needs matplotlib).")
    for options in (StudyOptions, StudyRunOptions):
        for field in _offered(options):
            flag = f"--{field.name.replace('_', '-')}"
            if field.type == "bool":
                parser.add_argument(flag, action="store_true")
            else:
                parser.add_argument(flag, type=CONVERTERS[str(field.type)], default=field.default)
    given = vars(parser.parse_args(arguments))
    from nu_ensembles_studies.run.study_run import run_study

    def chosen(options: type[Any]) -> Any:
        return options(**{field.name: given[field.name] for field in _offered(options)})

    try:
        what, how = chosen(StudyOptions), chosen(StudyRunOptions)
        _, progress = run_study(
            given["name"], what, given["out"], how, export=given["export"], page=not given["no_page"]
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(progress)
    return 0


def _offered(options: type[Any]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(options) if field.name != "backend"]


if __name__ == "__main__":
    sys.exit(main())

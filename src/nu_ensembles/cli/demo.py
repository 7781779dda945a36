"""`nu-ensembles demo`: the method at work on real data, without a file of one's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import FLAG, OUTPUT, Json, Quiet
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError

DEFAULT_OUT = Path("demo-report")


def demo(
    *,
    seeds: int = 5,
    seed: int = 100,
    out: Annotated[Path, Parameter(group=OUTPUT)] = DEFAULT_OUT,
    overwrite: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare standard ensembles and nu-ensembles on handwritten digits, in two acts: tables and a report page.

    50 labelled and 800 unlabelled digits train, the rest tests; a single network, standard ensembles (trained to the
    end, stopped early, with temperature scaling), nu with a fixed beta and nu on its own choice. Then a deployment that
    differs: labels of sharp digits, unlabelled and test images that are blurred. Shows what is measured, whatever it
    is. About a minute on two cores.

    ```
    nu-ensembles demo
    nu-ensembles demo --seeds 10 --out report
    nu-ensembles demo --json
    ```

    Args:
      seeds: How many splits of the data, each with its own networks.
      seed: The first of them; those below 100 had a part in setting the demo up.
      out: New folder for report.html and results.json.
      overwrite: Replace the report of an earlier demo in that folder.
      json: Print one JSON object.
      quiet: Show no progress.
    """
    _bring_back_earlier(out)
    _refuse_taken(out, overwrite)
    from nu_ensembles.storage import claimed
    from nu_ensembles_studies.demo.run import run_demo
    from nu_ensembles_studies.demo.terminal import print_demo

    with claimed(out):
        result = run_demo(
            seeds, seed, verbose=0 if quiet else 1, command=f"nu-ensembles demo --seeds {seeds} --seed {seed}"
        )
        with _earlier_set_aside(out):
            result.save(out)
    if json:
        show({"command": "demo", "out": out, **result.to_dict()}, "", as_json=True)
        return
    print_demo(result)
    print(f"\nThe report is {out / 'report.html'}")


def _refuse_taken(out: Path, overwrite: bool) -> None:
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise InputError(
            f"{out} exists already: add --overwrite to replace an earlier report, or choose another --out."
        )
    if not (out / "results.json").is_file() or not (out / "report.html").is_file():
        raise InputError(f"{out} holds no earlier report, so it is not overwritten; choose another --out.")


def _aside(out: Path) -> Path:
    """Where an earlier report is while the new one takes its place."""
    return out.with_name(f".{out.name}.earlier")


def _bring_back_earlier(out: Path) -> None:
    """Where a demo was killed while its report took the place of an earlier one, there is one of the two."""
    aside = _aside(out)
    if not aside.is_dir():
        return
    if os.path.lexists(out):
        shutil.rmtree(aside)
    else:
        os.rename(aside, out)


@contextmanager
def _earlier_set_aside(out: Path) -> Iterator[None]:
    """The earlier report makes room for the new one, and comes back if that fails."""
    if not out.exists():
        yield
        return
    aside = _aside(out)
    os.rename(out, aside)
    try:
        yield
    except BaseException:
        os.rename(aside, out)
        raise
    shutil.rmtree(aside)

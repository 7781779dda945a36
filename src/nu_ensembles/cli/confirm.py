"""`nu-ensembles confirm`: did what a fit expected on its unlabelled rows stand?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import DATA, Columns, Json
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError


def confirm(
    model: Path,
    labelled: Path,
    *,
    target: Annotated[str | None, Parameter(group=DATA)] = None,
    drop: Annotated[Columns, Parameter(group=DATA)] = (),
    json: Json = False,
) -> None:
    """Say whether the accuracy that a fit expected on its unlabelled rows stood, by some labelled rows from there.

    Twenty rows will do, those that fit named or any others: what is expected is asked of the very rows that come.

    ```
    nu-ensembles confirm model labelled_20.csv
    nu-ensembles confirm model labelled_20.csv --target species --json
    ```

    Args:
      model: Folder that fit has written.
      labelled: Labelled rows from where the unlabelled ones came: a .csv, .npz or .parquet file, or a folder of images.
      target: Column that holds the labels; by default the one that the model was trained on.
      drop: Column to leave out that the training data did not have; repeat the option for more.
      json: Print one JSON object.
    """
    from nu_ensembles.cli.data import DataDescription, read_labelled, refuse_other_shape
    from nu_ensembles.deployment import DeploymentExpectation
    from nu_ensembles.deployment import confirm as compared
    from nu_ensembles.ensemble import Ensemble

    ensemble = Ensemble.load(model)
    stored = (ensemble.training.get("classifier") or {}).get("expected_")
    if stored is None:
        raise InputError(
            f"The model {model} expects nothing of its unlabelled rows: it had none, or nothing was held out that "
            "could tell; fit it again with --unlabeled."
        )
    expected = DeploymentExpectation.from_dict(stored)
    x, codes = read_labelled(DataDescription.of(ensemble), labelled, target, drop, ensemble.classes)
    if ensemble.encoding is None:
        refuse_other_shape(x, labelled, ensemble.row_shape)
    found = compared(expected, ensemble.predict_proba(x), codes)
    show({"command": "confirm", **dataclasses.asdict(found)}, found.sentence, json)

"""What a study is: rows of a table, each an average over seeds of cells that a protocol picks.

A row names, for every seed, its candidates: (cell, epochs) pairs. *published* and *matched* have one candidate a seed;
*selected* has the grid and takes the best on the validation rows. Cells shared between rows are trained once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nu_ensembles.studies.cells import Cell, merged
from nu_ensembles.studies.options import MEMBERS, StudyOptions

if TYPE_CHECKING:
    from nu_ensembles.studies.claims import Claim
    from nu_ensembles.studies.results import Results

Candidate = tuple[Cell, int]


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a study.

    Attributes:
      dataset, n_train, model: where.
      method: how it was trained; `title`: the same for readers.
      protocol: how its hyper-parameters came about.
      candidates: one tuple of (cell, epochs) for each seed.
      settings: what else tells it from its neighbours, such as ("beta", 0.01), for figures.
    """

    dataset: str
    n_train: int
    model: str
    method: str
    title: str
    protocol: str
    candidates: tuple[tuple[Candidate, ...], ...]
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def place(self) -> tuple[str, int, str, str]:
        """Rows of one place are compared with each other."""
        return self.dataset, self.n_train, self.model, self.protocol

    @property
    def scored(self) -> bool:
        """Whether its cells hold scores; cells that are only timed do not."""
        return all(cell.kind != "cost" for candidates in self.candidates for cell, _ in candidates)

    def setting(self, name: str) -> Any:
        return dict(self.settings).get(name)


@dataclasses.dataclass(frozen=True)
class Study:
    """A declared experiment.

    Attributes:
      name: on the command line.
      title, question: what is measured, for readers.
      rows: options -> rows.
      defaults: the options that this study takes where nothing is asked for.
      claims: results -> what the paper says and what came out.
      sections: what its page shows, in order; see `report/study_page.py`.
      notes: what a reader must know to read the numbers.
      slim: export the main scores alone, because there are thousands of points.
    """

    name: str
    title: str
    question: str
    rows: Callable[[StudyOptions], list[Row]]
    defaults: Mapping[str, Any]
    claims: Callable[[Results], list[Claim]] = lambda results: []
    sections: Sequence[str] = ("claims", "scores", "temperature", "members", "unlabeled", "reliability")
    notes: Sequence[str] = ()
    slim: bool = False

    def declare(self, options: StudyOptions) -> list[Row]:
        """The rows under these options, with the study's own choices filled in."""
        return self.rows(self.complete(options))

    def complete(self, options: StudyOptions) -> StudyOptions:
        """The options with nothing left open, so that the same rows are declared again on any machine."""
        if not options.backend:
            import jax

            options = dataclasses.replace(options, backend=jax.default_backend())
        return options.or_default(**{"rule": "published", "members": MEMBERS, **self.defaults})


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """Every cell that the rows need, each once, with all epochs at which it is asked for."""
    asked = [
        dataclasses.replace(cell, epochs=(epochs,))
        for row in rows
        for candidates in row.candidates
        for cell, epochs in candidates
    ]
    return merged(asked)

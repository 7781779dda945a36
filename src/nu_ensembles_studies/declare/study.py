"""What a study is: rows of a table, each an average over seeds of cells that a protocol picks.

A row names, for every seed, its candidates: (cell, epochs) pairs. *published* and *matched* have one candidate a seed;
*selected* has the grid and takes the best on the validation rows. Cells shared between rows are trained once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nu_ensembles_studies.declare.cells import StudyCell, merged_cells
from nu_ensembles_studies.declare.options import MEMBERS, PROTOCOLS, StudyOptions

if TYPE_CHECKING:
    from nu_ensembles.report.page import Section
    from nu_ensembles_studies.results.claims import Claim
    from nu_ensembles_studies.results.results import Results

Candidate = tuple[StudyCell, int]


class Place(NamedTuple):
    """Where rows are compared with each other; `protocol`: how their hyper-parameters came about."""

    dataset: str
    n_train: int
    model: str
    protocol: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a study.

    Attributes:
      dataset, n_train, model, protocol: its place.
      method: how it was trained; `title`: the same for readers.
      candidates: one tuple of (cell, epochs) for each seed.
      varied: what else tells it from its neighbours, such as ("beta", 0.01), for figures.
    """

    dataset: str
    n_train: int
    model: str
    protocol: str
    method: str
    title: str
    candidates: tuple[tuple[Candidate, ...], ...]
    varied: tuple[tuple[str, Any], ...] = ()

    @property
    def place(self) -> Place:
        return Place(self.dataset, self.n_train, self.model, self.protocol)

    @property
    def scored(self) -> bool:
        """Whether its cells hold scores; cells that are only timed do not."""
        return all(cell.kind != "cost" for candidates in self.candidates for cell, _ in candidates)

    def value_of(self, name: str) -> Any:
        """Of something that was varied; None where it was not."""
        return dict(self.varied).get(name)


@dataclasses.dataclass(frozen=True)
class Study:
    """A declared experiment.

    Attributes:
      name: on the command line.
      title, question: what is measured, for readers.
      rows: options -> rows.
      defaults: the options that this study takes where nothing is asked for.
      sections: what its page shows, in order; one that has nothing to show gives None.
      claims: results -> what the paper says and what came out.
      notes: what a reader must know to read the numbers.
      slim: export the main scores alone, because there are thousands of points.
      methods: what can be asked for by --methods; None for the package's.
      protocols: what can be asked for by --protocols.
    """

    name: str
    title: str
    question: str
    rows: Callable[[StudyOptions], list[Row]]
    defaults: Mapping[str, Any]
    sections: Sequence[Callable[[Results], Section | None]]
    claims: Callable[[Results], list[Claim]] = lambda results: []
    notes: Sequence[str] = ()
    slim: bool = False
    methods: Sequence[str] | None = None
    protocols: Sequence[str] = PROTOCOLS

    def declare(self, options: StudyOptions) -> list[Row]:
        """The rows under these options, with the study's own choices filled in."""
        return self.rows(self.complete(options))

    def complete(self, options: StudyOptions) -> StudyOptions:
        """The options with nothing left open, so that the same rows are declared again on any machine."""
        if not options.backend:
            import jax

            options = dataclasses.replace(options, backend=jax.default_backend())
        return options.or_default(**{"rule": "published", "members": MEMBERS, **self.defaults})


def cells_of(rows: Sequence[Row]) -> list[StudyCell]:
    """Every cell that the rows need, each once, with all epochs at which it is asked for."""
    return merged_cells(
        dataclasses.replace(cell, epochs=(epochs,))
        for row in rows
        for candidates in row.candidates
        for cell, epochs in candidates
    )

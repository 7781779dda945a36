"""What the results of a demo may hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from nu_ensembles.contents import checksum, form, listing, mapping, number, optional, plain, stored, text, whole
from nu_ensembles.errors import InputError

_NAME, _MOST = text(1000), 10_000
_NUMBERS = listing(optional(number()), least=1, most=_MOST)
_PAIR = listing(whole(), 2, 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SettingsForm:
    """See `DemoSettings`."""

    n_labels: int = stored(whole(1))
    n_unlabeled: int = stored(whole(1))
    n_members: int = stored(whole(1))
    hidden: tuple[int, ...] = stored(listing(whole(1), most=100))
    learning_rate: float = stored(number(above=0))
    batch_size: int = stored(whole(1))
    last_step: int = stored(whole(1))
    fixed_beta: float = stored(number(above=-1))
    n_deployed: int = stored(whole(), absent=0)
    deployed_members: int = stored(whole(1), absent=10)
    deployed_passes: int = stored(whole(1), absent=300)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreForm:
    """A row's score on every seed."""

    values: tuple[float | None, ...] = stored(_NUMBERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowForm:
    """A row of the comparison."""

    key: str = stored(_NAME)
    title: str = stored(_NAME)
    scores: Mapping[str, ScoreForm] = stored(mapping(form(ScoreForm)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonForm:
    """See `Comparison`."""

    seeds: tuple[int, ...] = stored(listing(whole(), least=1, most=_MOST))
    reference: str = stored(_NAME)
    rows: tuple[RowForm, ...] = stored(listing(form(RowForm), least=1, most=_MOST))

    def __post_init__(self) -> None:
        keys, metrics = [row.key for row in self.rows], set(self.rows[0].scores)
        if len(set(keys)) < len(keys) or self.reference not in keys or len(set(self.seeds)) < len(self.seeds):
            raise InputError("its rows and seeds must differ, and the reference be one of the rows; restore it.")
        for row in self.rows:
            if set(row.scores) != metrics or any(len(s.values) != len(self.seeds) for s in row.scores.values()):
                raise InputError(f"the row {row.key!r} lacks scores that others have; restore it.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridForm:
    """See `Grid`."""

    betas: tuple[float, ...] = stored(listing(number(above=-1), least=1, most=_MOST))
    steps: tuple[int, ...] = stored(listing(whole(1), least=1, most=_MOST))
    nll: tuple[tuple[float | None, ...], ...] = stored(listing(_NUMBERS, least=1, most=_MOST))
    chosen: tuple[int, ...] = stored(_PAIR)
    best: tuple[int, ...] = stored(_PAIR)

    def __post_init__(self) -> None:
        shape = len(self.betas), len(self.steps)
        if len(self.nll) != shape[0] or any(len(row) != shape[1] for row in self.nll):
            raise InputError(
                f"the losses of a search are not those of {shape[0]} betas at {shape[1]} steps; restore it."
            )
        if any(at >= n for pair in (self.chosen, self.best) for at, n in zip(pair, shape, strict=True)):
            raise InputError("a search chose what it did not try; restore it.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceForm:
    """See `Choice`."""

    seed: int = stored(whole())
    beta: float = stored(number(above=-1))
    n_steps: int = stored(whole(1))
    standard_steps: int = stored(whole(1))
    temperature: float = stored(number(above=0))
    verdict: str = stored(text())
    grid: GridForm = stored(form(GridForm))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActForm:
    """See `DeploymentAct`; its predictions are in the file of the others."""

    comparison: ComparisonForm = stored(form(ComparisonForm))
    betas: tuple[float, ...] = stored(listing(number(above=-1), least=1, most=_MOST))
    verdicts: tuple[str, ...] = stored(listing(text(), least=1, most=_MOST))
    expected: tuple[tuple[float, ...], ...] = stored(listing(listing(number(), 4, 4), least=1, most=_MOST))

    def __post_init__(self) -> None:
        n_seeds = len(self.comparison.seeds)
        if any(len(each) != n_seeds for each in (self.betas, self.verdicts, self.expected)):
            raise InputError("the second act lacks what others of its seeds have; restore it.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoForm:
    """See `DemoResult`; the predictions are in a file of their own."""

    settings: SettingsForm = stored(form(SettingsForm))
    comparison: ComparisonForm = stored(form(ComparisonForm))
    choices: tuple[ChoiceForm, ...] = stored(listing(form(ChoiceForm), least=1, most=_MOST))
    environment: Mapping[str, Any] = stored(mapping(plain))
    command: str = stored(text())
    seconds: float = stored(number(above=-1))
    predictions_sha256: str = stored(checksum)
    deployment: ActForm | None = stored(optional(form(ActForm)), absent=None)

    def __post_init__(self) -> None:
        if tuple(choice.seed for choice in self.choices) != self.comparison.seeds:
            raise InputError("its choices are not those of its seeds; restore it.")

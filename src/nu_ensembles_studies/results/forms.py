"""What the files of a study may hold: its description, its cells, its results, those of a demo."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from nu_ensembles.contents import (
    Check,
    flag,
    form,
    listing,
    mapping,
    number,
    one_of,
    optional,
    plain,
    stored,
    text,
    unfit,
    whole,
)
from nu_ensembles.errors import DamagedFileError

_NAME = text(200)
_MOST_MEMBERS, _MOST_EPOCHS = 100_000, 1_000_000_000
# Parts of what is measured at an epoch that are scores and nothing else; None is a score that was not finite.
_SCORES = mapping(optional(number()))
_PARTS: dict[str, Check] = dict.fromkeys(("test", "scaled", "validation", "unlabeled"), _SCORES)
_EPOCH = re.compile(r"[1-9]\d{0,9}")
MAKER = ("nu_ensembles", "jax", "backend", "device", "code")


def _option(value: Any, where: str) -> Any:
    """The value of a method's option."""
    if isinstance(value, list):
        return tuple(listing(_option, most=1000)(value, where))
    if isinstance(value, str | bool | None):
        return value
    return number()(value, where)


def _exactly(kind: type[Any]) -> Check:
    """A form within another that has no other fields: one that is not known here would decide what the numbers mean."""
    known = {field.name for field in dataclasses.fields(kind)}

    def check(value: Any, where: str) -> Any:
        unknown = sorted(set(mapping(lambda each, _: each)(value, where)) - known)
        if unknown:
            raise DamagedFileError(
                f"{where} has {unknown[0]!r}, which this version does not know; upgrade nu-ensembles."
            )
        return form(kind)(value, where)

    return check


def _maker(value: Any, where: str) -> dict[str, str]:
    found = mapping(text(1000))(value, where)
    lacking = [name for name in MAKER if name not in found]
    if lacking:
        raise unfit(where, f"one that names {', '.join(lacking)}", "one that does not")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellForm:
    """See `StudyCell`."""

    dataset: str = stored(_NAME)
    n_train: int = stored(whole(1))
    model: str = stored(_NAME)
    method: str = stored(_NAME)
    seed: int = stored(whole())
    epochs: tuple[int, ...] = stored(listing(whole(1, _MOST_EPOCHS), least=1, most=10_000))
    options: Mapping[str, Any] = stored(mapping(_option))
    learning_rate: float = stored(number(above=0))
    weight_decay: float = stored(number(above=-1))
    n_unlabeled: int = stored(whole())
    n_validation: int = stored(whole())
    n_test: int | None = stored(optional(whole()))
    split: str = stored(one_of("published", "random"))
    batch_size: int = stored(whole(1))
    unlabeled_batch_size: int | None = stored(optional(whole(1)))
    augment: bool = stored(flag)
    n_members: int = stored(whole(1, _MOST_MEMBERS))
    dtype: str = stored(_NAME)
    also: tuple[str, ...] = stored(listing(_NAME, most=100))
    kind: str = stored(_NAME)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordForm:
    """See `Record`."""

    cell: CellForm = stored(_exactly(CellForm))
    status: str = stored(one_of("done", "failed"))
    reason: str = stored(text())
    seconds: float = stored(number(above=-1))
    maker: Mapping[str, str] = stored(_maker)
    measured: Mapping[str, Any] = stored(mapping(plain))

    def __post_init__(self) -> None:
        if self.status != "done":
            return
        where = "'measured'"
        by_epoch = mapping(mapping(plain, _PARTS))(self.measured.get("epochs"), f"{where}['epochs']")
        lacking = [epochs for epochs in self.cell.epochs if str(epochs) not in by_epoch]
        if lacking or not all(_EPOCH.fullmatch(name) for name in by_epoch):
            raise unfit(where, f"what was measured after {', '.join(map(str, self.cell.epochs))} epochs", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptionsForm:
    """See `StudyOptions`."""

    datasets: tuple[str, ...] = stored(listing(_NAME, most=1000), absent=())
    models: tuple[str, ...] = stored(listing(_NAME, most=1000), absent=())
    methods: tuple[str, ...] = stored(listing(_NAME, most=1000), absent=())
    protocols: tuple[str, ...] = stored(listing(_NAME, most=1000), absent=())
    n: tuple[int, ...] = stored(listing(whole(1, 10**9), most=1000), absent=())
    seeds: int = stored(whole(1, 10_000), absent=5)
    first_seed: int = stored(whole(0, 2**31), absent=0)
    members: int | None = stored(optional(whole(1, _MOST_MEMBERS)), absent=None)
    rule: str = stored(_NAME, absent="")
    fine_betas: bool = stored(flag, absent=False)
    dtype: str = stored(_NAME, absent="auto")
    quick: bool = stored(flag, absent=False)
    backend: str = stored(_NAME, absent="")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AboutForm:
    """What stands at the head of a study's folder and of its results."""

    study: str = stored(_NAME)
    options: OptionsForm = stored(_exactly(OptionsForm))
    commands: tuple[str, ...] = stored(listing(text(), most=100_000), absent=())
    seconds: float = stored(number(above=-1), absent=0.0)
    environment: Mapping[str, Any] | None = stored(optional(mapping(plain)), absent=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResultsForm(AboutForm):
    """The file that a study exports, its cells aside."""

    format: int = stored(whole(1))
    makers: tuple[Mapping[str, str], ...] = stored(listing(_maker, most=10_000))
    cells: tuple[Mapping[str, Any], ...] = stored(listing(mapping(lambda value, _: value)))

    def records(self, where: str) -> list[dict[str, Any]]:
        """The entries of the cells, each with its maker instead of the maker's number."""
        found = []
        for number_, cell in enumerate(self.cells):
            at = whole(0, len(self.makers) - 1)(cell.get("maker"), f"{where}: 'cells'[{number_}]['maker']")
            found.append({**cell, "maker": self.makers[at]})
        return found

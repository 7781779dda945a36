"""Which candidate a row takes on a seed: the one that is best on the validation rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nu_ensembles.errors import unknown_name
from nu_ensembles.studies.folder import Record

Scores = Mapping[str, Any]


def published_criterion(scores: Scores) -> float:
    """(1 - accuracy)² + TACE², what the paper's code minimises on validation data."""
    return (1.0 - scores["accuracy"]) ** 2 + scores["tace"] ** 2


def nll_criterion(scores: Scores) -> float:
    """The NLL, a proper score: it rewards accuracy and calibration at their natural rate of exchange."""
    return float("inf") if scores["nll"] is None else scores["nll"]


CRITERIA: dict[str, Callable[[Scores], float]] = {"published": published_criterion, "nll": nll_criterion}


def choose(candidates: Sequence[tuple[Record | None, int]], rule: str) -> tuple[Record, int] | None:
    """The best of (record, epochs); a single candidate needs no validation rows. None if none of them is done."""
    if rule not in CRITERIA:
        raise unknown_name("selection rule", rule, CRITERIA)
    done = [(record, epochs) for record, epochs in candidates if record is not None and epochs in record.cell.epochs]
    done = [(record, epochs) for record, epochs in done if record.status == "done"]
    if len(candidates) == 1 or not done:
        return done[0] if done else None
    return min(done, key=lambda each: CRITERIA[rule](each[0].at(each[1])["validation"]))

"""The sections of the study `rivals`: who leads, what was aimed at, and by number of labels and by table."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.data_sets import DATASETS
from nu_ensembles_studies.declare.study import Place
from nu_ensembles_studies.results.rankings import Ratio, mean_ranks, ratio, wins_and_losses
from nu_ensembles_studies.results.results import Results

NU, COMPANION, FOREST, STANDARD = ("nu", "test"), ("nu", "companion"), ("tempered_forest", "test"), ("standard", "test")
# (method, part of what was measured) -> title, beside the methods' own.
OF_NU = {
    ("nu", "companion"): "ν + companion",
    ("nu", "calibrated"): "ν + calibration auto",
    ("nu", "companion_calibrated"): "ν + companion + calibration auto",
}
# Those that are ranked: one choice a user makes. The early-stopped standard ensemble is ν where it takes β = 0.
TEN = (
    *("nu", "tempered_forest", "random_forest", "logistic_regression", "gaussian_process", "svm", "mlp"),
    *("gradient_boosting", "self_training", "label_spreading"),
)
Entry = tuple[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Splits:
    """Scores of all entries on all splits.

    Where ν was measured on some splits only, the others count on these alone: means are over the same splits.

    Attributes:
      places: `[N]`, of each split.
      groups: `[N]`, its data set.
    """

    results: Results
    entries: dict[Entry, str]
    places: Sequence[Place]
    groups: np.ndarray

    @classmethod
    def of(cls, results: Results) -> Splits:
        titles = {(row.method, "test"): row.title for row in results.rows}
        entries = titles | (OF_NU if NU in titles else {})
        n_seeds = len(results.options.seed_list)
        places = [place for place in results.places() for _ in range(n_seeds)]
        return cls(results, entries, places, np.array([place.dataset for place in places]))

    @functools.cached_property
    def counted(self) -> np.ndarray:
        """Which splits count, `[N]`."""
        of_nu = ~np.isnan(self._all_scores(NU, "nll"))
        return of_nu if of_nu.any() else ~of_nu

    def scores(self, entry: Entry, metric: str) -> np.ndarray:
        """`[N]`, nan where nothing was measured."""
        return np.where(self.counted, self._all_scores(entry, metric), np.nan)

    def _all_scores(self, entry: Entry, metric: str) -> np.ndarray:
        method, part = entry
        found = []
        for place in self.results.places():
            row = self.results.find(method, place)
            nothing = np.full(len(self.results.options.seed_list), np.nan)
            found.append(nothing if row is None else self.results.values(row, metric, part))
        return np.concatenate(found) if found else np.empty(0)

    def seconds(self, entry: Entry) -> np.ndarray:
        """Processor seconds `[N]` of what a user would have called."""
        method, part = entry
        own = self.scores((method, "cost"), "processor_seconds")
        return own + self.scores((method, "companion_cost"), "processor_seconds") if "companion" in part else own

    @property
    def measured(self) -> list[Entry]:
        """Entries of which something was measured."""
        return [entry for entry in self.entries if not np.isnan(self.scores(entry, "nll")).all()]

    def ranks(self, entries: Sequence[Entry], among: np.ndarray | None = None) -> dict[Entry, float]:
        """Mean NLL ranks of those that are ranked together; nothing if one of them is missing.

        Args:
          among: `[N]`, which splits count.
        """
        if not entries or any(entry not in self.measured for entry in entries):
            return {}
        losses = np.stack([self.scores(entry, "nll") for entry in entries], axis=1)
        return dict(zip(entries, mean_ranks(losses if among is None else losses[among]).tolist(), strict=True))

    def ratio(self, entry: Entry, reference: Entry, among: np.ndarray | None = None) -> Ratio:
        losses, others = self.scores(entry, "nll"), self.scores(reference, "nll")
        which = np.full(len(losses), True) if among is None else among
        return ratio(losses[which], others[which], self.groups[which])


def ten_and_eleven(splits: Splits, among: np.ndarray | None = None) -> tuple[dict[Entry, float], dict[Entry, float]]:
    """Mean ranks of the ten single methods, and of these and ν with a companion."""
    ten = [(name, "test") for name in TEN]
    return splits.ranks(ten, among), splits.ranks([*ten, COMPANION], among)


def leaders_section(results: Results) -> Section | None:
    """Every method: its ranks, its NLL against ν's, its other scores, its time."""
    splits = Splits.of(results)
    if not splits.measured:
        return None
    ten, eleven = ten_and_eleven(splits)
    columns = [
        Column("Method", text=True),
        Column("Rank of ten", "Mean rank by NLL among ten single methods, on splits where all were measured."),
        Column("Rank of eleven", "The same with ν + companion among them."),
        Column("NLL / ν's", "Geometric mean over splits, with its 95 % interval over tables; below 1 is better."),
        Column("Better, worse", "Splits with a lower and with a higher NLL than ν's."),
        Column("Accuracy %"),
        Column("ECE"),
        Column("Brier"),
        Column("Processor s", "Of fitting and predicting, median over splits."),
        Column("Splits"),
    ]
    order = sorted(splits.measured, key=lambda entry: _place_in_line(splits, entry, ten))
    lines = [_line(splits, entry, ten, eleven) for entry in order]
    return Section("Who leads", [SortableTable("All splits together", columns, lines)])


def _place_in_line(splits: Splits, entry: Entry, ten: dict[Entry, float]) -> tuple[float, float]:
    """By NLL against ν's where it is there, else by rank."""
    against = splits.ratio(entry, NU).mean if NU in splits.measured else math.nan
    return (against if not math.isnan(against) else ten.get(entry, math.inf), ten.get(entry, math.inf))


def _line(splits: Splits, entry: Entry, ten: dict[Entry, float], eleven: dict[Entry, float]) -> list[Cell]:
    against, wins, losses = "–", 0, 0
    mark = ""
    if NU in splits.measured and entry != NU:
        found = splits.ratio(entry, NU)
        against, mark = found.text(), ("better" if found.mean < 1 else "worse") if found.excludes_one else ""
        wins, losses = wins_and_losses(splits.scores(entry, "nll"), splits.scores(NU, "nll"))
    seconds = splits.seconds(entry)
    seconds = seconds[~np.isnan(seconds)]
    return [
        Cell(splits.entries[entry], mark="reference" if entry == NU else ""),
        *(Cell(f"{ranks[entry]:.2f}" if entry in ranks else "–") for ranks in (ten, eleven)),
        Cell(against, mark=mark),
        Cell(f"{wins}, {losses}" if entry != NU else "–"),
        *(_mean(splits.scores(entry, metric), scale, digits) for metric, scale, digits in _SCORES),
        Cell(f"{np.median(seconds):.2f}" if len(seconds) else "–"),
        Cell(str(int((~np.isnan(splits.scores(entry, "nll"))).sum()))),
    ]


_SCORES = (("accuracy", 100.0, 1), ("ece", 1.0, 3), ("brier", 1.0, 3))


def _mean(values: np.ndarray, scale: float = 1.0, digits: int = 3) -> Cell:
    mean = math.nan if np.isnan(values).all() else float(np.nanmean(values))
    return Cell("–" if math.isnan(mean) else f"{scale * mean:.{digits}f}")


@dataclasses.dataclass(frozen=True)
class Target:
    """What was aimed at before it was measured, and what came out."""

    text: str
    came_out: str
    is_met: bool


def targets(results: Results) -> list[Target]:
    """The aims of this comparison, where what they are about was measured."""
    splits = Splits.of(results)
    ten, eleven = ten_and_eleven(splits)
    found = []
    if NU in ten and COMPANION in eleven:
        ece = float(np.nanmean(splits.scores(NU, "ece")))
        against, pooled = splits.ratio(NU, FOREST), splits.ratio(COMPANION, FOREST)
        found += [
            Target("ν: mean NLL rank of at most 2.2 among ten", f"{ten[NU]:.2f}", ten[NU] <= 2.2),
            Target("ν + companion: at most 1.8 among eleven", f"{eleven[COMPANION]:.2f}", eleven[COMPANION] <= 1.8),
            Target("ν: lower NLL than the tempered forest, interval below 1", against.text(), against.high < 1),
            Target("ν + companion: the same", pooled.text(), pooled.high < 1),
            Target("ν: mean ECE of at most .058", f"{ece:.3f}", ece <= 0.058),
        ]
    taken = splits.scores(("nu", "choice"), "beta") > 0
    ratios = splits.scores(NU, "nll")[taken] / splits.scores(STANDARD, "nll")[taken]
    if len(ratios) and not np.isnan(ratios).all():
        text = "ν where β > 0: on no split more than 2 % worse in NLL than the early-stopped standard ensemble"
        worse, mean, worst = int((ratios > 1.02).sum()), np.exp(np.nanmean(np.log(ratios))) - 1, np.nanmax(ratios) - 1
        came_out = f"{worse} of {len(ratios)}, mean {100 * mean:+.1f} %, worst {100 * worst:+.1f} %"
        found.append(Target(text, came_out.replace("-", "−"), worse == 0))
    for part in ("calibrated", "companion_calibrated"):
        entry, without = ("nu", part), NU if part == "calibrated" else COMPANION
        if entry in splits.measured:
            worse, of = harmed(splits.scores(entry, "nll"), splits.scores(without, "nll"))
            name = "a calibrator" if part == "calibrated" else "a calibrator of the pool"
            text = f"{name}: more than 1 % worse in NLL than without in at most one split of twenty"
            found.append(Target(text, f"{worse} of {of}", worse <= of / 20))
    return found


def harmed(losses: np.ndarray, reference: np.ndarray, by: float = 0.01) -> tuple[int, int]:
    """On how many splits a loss is higher than the reference by more than this share, and of how many."""
    there = ~np.isnan(losses) & ~np.isnan(reference)
    return int((losses[there] > (1 + by) * reference[there]).sum()), int(there.sum())


def targets_section(results: Results) -> Section | None:
    """What was aimed at, and what came out."""
    found = targets(results)
    if not found:
        return None
    columns = [Column("Aim", text=True), Column("Measured"), Column("Met", text=True)]
    lines = [
        [Cell(each.text), Cell(each.came_out), Cell("yes" if each.is_met else "no", mark=_mark(each))] for each in found
    ]
    return Section("What was aimed at, and what came out", [SortableTable("Aims", columns, lines)])


def _mark(target: Target) -> str:
    return "better" if target.is_met else "worse"


def budgets_section(results: Results) -> Section | None:
    """Ranks and ratios by number of labels."""
    splits = Splits.of(results)
    if NU not in splits.measured:
        return None
    sizes = np.array([place.n_train for place in splits.places])
    return _by(splits, "By number of labels", "Labels", {str(n): sizes == n for n in np.unique(sizes)})


def tables_section(results: Results) -> Section | None:
    """The same by table."""
    splits = Splits.of(results)
    if NU not in splits.measured:
        return None
    names = dict.fromkeys(splits.groups.tolist())
    return _by(splits, "By table", "Table", {DATASETS[name].title: splits.groups == name for name in names})


def _by(splits: Splits, title: str, head: str, parts: dict[str, np.ndarray]) -> Section:
    others = [entry for entry in splits.measured if entry != NU]
    columns = [
        Column(head, text=True),
        Column("NLL of ν"),
        *(Column(splits.entries[entry]) for entry in others),
        Column("Splits", "On which ν was measured."),
    ]
    lines = []
    for name, which in parts.items():
        nll = splits.scores(NU, "nll")[which]
        if np.isnan(nll).all():
            continue
        ratios = [splits.ratio(entry, NU, which).mean for entry in others]
        cells = [Cell("–" if math.isnan(each) else f"{each:.2f}", mark=_against(each)) for each in ratios]
        lines.append([Cell(name), _mean(nll), *cells, Cell(str(int((~np.isnan(nll)).sum())))])
    text = "The NLL of ν, and that of every other method divided by it: geometric means over splits, below 1 is better."
    return Section(title, [Paragraph(text), SortableTable(title, columns, lines)])


def _against(value: float) -> str:
    return "" if math.isnan(value) or abs(value - 1) < 0.005 else "better" if value < 1 else "worse"

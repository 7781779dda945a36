"""A search in stages: early stopping first, then a look whether beta promises anything, then all the others.

On most small tables no beta is any better than stopping in time. There the reference (beta = 0, which runs as the
standard ensemble that it is) and one or two probes tell so, at a third of what the whole grid costs. Whatever stage a
candidate belongs to, the reference is measured at every stop at which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from nu_ensembles.backend import Backend
from nu_ensembles.methods import Method
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.trial import Heat, Show, Trial

# Where the grid goes on when its best value sits on the edge.
LARGER = (0.1, 0.3, 1.0)
SMALLER = (3e-5, 1e-5)

MakeMethod = Callable[[float], Method]


def staged(
    trial: Trial,
    betas: Sequence[float],
    probes: Sequence[float],
    extend: bool,
    method_of: MakeMethod,
    bar: AbstractContextManager[Show],
) -> OutOfFold:
    """What was measured, of the candidates that were tried.

    Args:
      betas: all candidates; the smallest is the reference.
      probes: those that are tried first, from the largest on, until one promises something or does nothing; if there
        are none, every candidate is tried.
      extend: whether the grid goes on when its best value sits on the edge.
      method_of: the method of a candidate.
      bar: shows the steps while they are made.
    """
    betas = sorted(set(betas))
    further = [beta for beta in (*LARGER, *SMALLER) if beta not in betas] if extend else []
    every = sorted({*betas, *further})
    number_of = {beta: number for number, beta in enumerate(every)}
    race = Race(trial, trial.nothing_yet(every), number_of[betas[0]], method_of)
    probes = sorted((beta for beta in probes if beta in betas[1:]), reverse=True)
    first = race.heat([number_of[beta] for beta in probes[:1] or betas[1:]])
    with bar as show:
        # While the reference trains, what follows is compiled.
        with Backend.current().ahead(first.get_ready):
            race.train_reference(show)
        promised = not probes
        for beta in probes:
            probe = number_of[beta]
            race.run(first if beta == probes[0] else race.heat([probe]), race.promises_or_may_yet, show)
            promised = race.promises(probe)
            # A reference that never was past its best has not overfitted: there is nothing for another beta to mend.
            # And where this one does nothing at all, the next, a smaller one, does not either.
            if promised or race.reference_is_best_at_the_end or race.does_nothing(probe):
                break
        others = [beta for beta in betas[1:] if not race.found.is_measured(number_of[beta])]
        if promised and others:
            heat = race.heat([number_of[beta] for beta in others]) if probes else first
            race.run(heat, race.worth_going_on, show)
        while promised and extend:
            more = beyond_the_edge(race.found.best_beta, race.found.tried_betas)
            if more is None:
                break
            race.run(race.heat([number_of[more]]), race.worth_going_on, show)
    return race.found.of_those_measured()


class Race:
    """Candidates against a reference that is measured wherever one of them is."""

    def __init__(self, trial: Trial, found: OutOfFold, reference: int, method_of: MakeMethod) -> None:
        self.trial, self.found, self.method_of = trial, found, method_of
        self.first = reference
        self.reference = self.heat([reference])

    def heat(self, candidates: Sequence[int]) -> Heat:
        """These candidates, about to start."""
        methods = {each: self.method_of(float(self.found.betas[each])) for each in candidates}
        return self.trial.heat(methods, self.found)

    def train_reference(self, show: Show) -> None:
        """Trains the reference until it is past its best."""
        self.reference.go_on(show)
        while not self.reference.is_over and not self.found.is_past_its_best(self.first, self.reference.stop):
            self.reference.go_on(show)

    def run(self, heat: Heat, goes_on: Callable[[int, int], bool], show: Show) -> None:
        """Trains candidates side by side, each for as long as it `goes_on(candidate, stop)`."""
        while not heat.is_over:
            if self.reference.stop == heat.stop:
                self.reference.go_on(show)
            heat.go_on(show)
            heat.keep([each for each in heat.remaining if goes_on(each, heat.stop)])

    def worth_going_on(self, candidate: int, stop: int) -> bool:
        """Whether a candidate, measured at a stop, may yet be the best."""
        return not self.found.is_beaten(candidate, stop)

    def promises(self, candidate: int) -> bool:
        """Whether a candidate is ahead of the reference, each at its best, by more than noise may easily make it."""
        return self.found.is_promising(candidate, self.first)

    def does_nothing(self, candidate: int) -> bool:
        """Whether a candidate's best is as good as the reference's, and as that on nearly every row."""
        return self.found.is_alike(candidate, self.first)

    def promises_or_may_yet(self, candidate: int, stop: int) -> bool:
        """Whether a probe is worth going on with: it is ahead, or it has not been past the best of the reference."""
        if not self.worth_going_on(candidate, stop):
            return False
        beyond = stop >= self.found.best_stop(self.first)
        return self.promises(candidate) or not beyond or self.found.falls(candidate, stop)

    @property
    def reference_is_best_at_the_end(self) -> bool:
        return self.found.best_stop(self.first) == len(self.trial.stops) - 1


def beyond_the_edge(best: float, betas: Sequence[float]) -> float | None:
    """The next beta to try when the best is the largest, or the smallest above zero; None if it is neither."""
    positive = [beta for beta in betas if beta > 0]
    if not positive:
        return None
    if best == positive[-1]:
        return next((beta for beta in LARGER if beta > best), None)
    if best == positive[0]:
        return next((beta for beta in SMALLER if beta < best), None)
    return None

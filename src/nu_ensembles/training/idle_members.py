"""Members that learnt nothing while the others did.

Such a member predicts about the same for every row. It makes the ensemble less confident and, by every measure of how
members differ, more diverse, so it can pass for an improvement: whoever reads the scores should know.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from nu_ensembles.errors import IdleMembersWarning
from nu_ensembles.problem import Problem

# Of the loss of guessing: above the first share a member counts as idle, if the median one is below the second.
IDLE, LEARNT = 0.9, 0.5


def warn_of_idle_members(
    losses: np.ndarray, members: Sequence[int], problem: Problem, learning_rate: float | None
) -> None:
    """Warns if some members are idle.

    Args:
      losses: `[K]`, mean losses of the last steps; nan where unknown.
      members: their numbers.
      learning_rate: of the training, if it is known.
    """
    found = idle_members(losses, members, problem)
    if not found:
        return
    which = f"Member {found[0]}" if len(found) == 1 else f"Members {', '.join(map(str, found[:-1]))} and {found[-1]}"
    rate = "" if learning_rate is None else f" (now {learning_rate:g})"
    guessing, usual = loss_of_guessing(problem), np.nanmedian(losses)
    warnings.warn(
        f"{which} of {len(members)} learnt nothing: the loss is that of guessing, {guessing:.2f}; that of the median "
        f"member is {usual:.2f}. Lower the learning rate{rate} or take another seed; until then this ensemble looks "
        "less confident and more diverse than its trained members are.",
        IdleMembersWarning,
        stacklevel=2,
    )


def idle_members(losses: np.ndarray, members: Sequence[int], problem: Problem) -> list[int]:
    """The numbers of those whose loss is that of guessing, where most members' is far below.

    Where the median is not, nobody is: the training was short, or the loss holds more than the labels' part.
    """
    of_guessing = loss_of_guessing(problem)
    if np.isnan(losses).all() or np.nanmedian(losses) > LEARNT * of_guessing:
        return []
    return [member for member, loss in zip(members, losses, strict=True) if loss > IDLE * of_guessing]


def loss_of_guessing(problem: Problem) -> float:
    """Cross-entropy of the best constant prediction, in nats: the entropy of the labels' shares."""
    shares = np.bincount(problem.y, problem.weight)
    shares = shares[shares > 0] / shares.sum()
    return float(-(shares * np.log(shares)).sum())

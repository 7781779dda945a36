"""Whether this process may use JAX, asked before a training begins and before networks predict."""

from __future__ import annotations

import os

from nu_ensembles.errors import InputError


def refuse_forks() -> None:
    """Refuses to use JAX in a process that was forked from one that had used it, where it would wait for ever.

    Raises:
      InputError: this is such a process.
    """
    global _used_in
    here = os.getpid()
    if _used_in not in (None, here):
        raise InputError(
            "This process was forked from one in which JAX was running, and JAX would hang here for ever; start "
            "workers with multiprocessing.get_context('spawn'), or with joblib, whose workers are fresh processes."
        )
    _used_in = here


# The process in which networks were first trained or asked.
_used_in: int | None = None

"""A head start for the compiler: its slowest search for a kernel begins while the steps are still being traced.

On a GPU XLA asks cuDNN for the kernels of one convolution after another. Those of weight gradients are in part compiled
on the spot, and for the first of them cuDNN loads its own compiler, while much else that is to be compiled waits.
What it finds it keeps for as long as the process lives, whichever program it was found for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import NamedTuple

import jax
from jax import Array

from nu_ensembles.engine.compilation import FEWER_TRIALS, knows_options
from nu_ensembles.engine.side_by_side import beside
from nu_ensembles.models import convolution


class Traced(NamedTuple):
    """A weight gradient that was traced, and the shapes of what it was traced with."""

    gradient: Callable[..., Array]
    shapes: tuple[jax.ShapeDtypeStruct, ...]


@contextmanager
def head_start() -> Iterator[None]:
    """Has the kernel of the first weight gradient that the body traces searched for in another thread meanwhile.

    The backward pass is traced from its end: the first is that of the last convolution, the one of most channels.
    """
    traced: SimpleQueue[Traced | None] = SimpleQueue()

    def note(gradient: Callable[..., Array], *arguments: Array) -> None:
        traced.put(Traced(gradient, tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arguments)))

    with beside(lambda: _search(traced.get())):
        watched = convolution.weight_gradients_watched.set(note)
        try:
            yield
        finally:
            convolution.weight_gradients_watched.reset(watched)
            traced.put(None)  # there may have been none


def _search(traced: Traced | None) -> None:
    """Compiles the gradient alone; what was compiled is not kept.

    Nothing depends on it: should it fail, whatever the reason, the steps go without or will fail for the same.
    """
    if traced is None:
        return
    with suppress(Exception):
        options = FEWER_TRIALS if knows_options(*FEWER_TRIALS) else None
        jax.jit(traced.gradient, compiler_options=options).lower(*traced.shapes).compile()

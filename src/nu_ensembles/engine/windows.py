"""Unlabelled rows that are not on the device: those of the next steps, read ahead while the present ones run.

A window is some consecutive steps of a block. Its rows are drawn as ever, taken from where they are, and put on the
device one after another, so that the steps' program is the usual one: it gathers place p of a small array instead of
row r of a large one. The same rows in the same order give the same bits.

Several windows are read in one haul, in the order in which their rows lie in the file: of 50 million rows on disk, a
window wants one in each dozen pages, and a haul of sixteen windows more than one in each.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nu_ensembles.backend import with_settings_of_here
from nu_ensembles.engine.blocks import Block, LastingOrders, block_of, steps_a_block
from nu_ensembles.engine.program import Lanes, OutsideRows, Program, TrainingData
from nu_ensembles.errors import InputError

# Of the rows of a haul; two hauls are in memory at a time. A haul of a run's start is a window, the next one is twice
# as long, and so on, so that nobody waits for the first steps.
HAUL_BYTES = 1 << 27
MOST_WINDOWS = 16


class Window(NamedTuple):
    """What steps up to `end` train on: a block whose unlabelled rows are places in `data.x_unlabeled`."""

    data: TrainingData
    block: Block
    end: int


class Haul(NamedTuple):
    """Consecutive windows, read at once: their blocks, and rows `[windows, P, …]` and targets `[windows, K, P]`."""

    blocks: list[Block]
    rows: np.ndarray
    targets: list[np.ndarray] | None


class Windows:
    """The windows of a run, in their order.

    Args:
      data: with rows outside.
      mesh: of the run, whose lanes are spread over it.
    """

    def __init__(self, program: Program, lanes: Lanes, data: TrainingData, mesh: Mesh | None) -> None:
        assert data.outside is not None
        self.program, self.lanes, self.data, self.mesh = program, lanes, data, mesh
        self.outside: OutsideRows = data.outside
        self.block_length = steps_a_block(program, data)
        row_bytes = int(np.prod(self.outside.rows.shape[1:])) * self.outside.rows.dtype.itemsize
        self.rows_a_step = lanes.n_lanes * program.unlabeled_batch_size
        # A power of two, of which a block is a multiple.
        fit = max(1, HAUL_BYTES // (self.rows_a_step * row_bytes))
        self.length = min(self.block_length, 1 << (fit.bit_length() - 1))
        self.most_windows = min(MOST_WINDOWS, max(1, fit // self.length))
        self.places = self._places()
        self._orders = LastingOrders()
        self._reader = ThreadPoolExecutor(1, "rows-ahead")
        self._ahead: dict[int, tuple[int, Future[Haul]]] = {}  # first window -> how many, and what is read

    def at(self, step: int) -> Window:
        """The window that a step is in; those after it are read from now on."""
        number = step // self.length
        self._ahead = {first: haul for first, haul in self._ahead.items() if number < first + haul[0]}
        if not any(first <= number for first in self._ahead):
            self._ahead = {}
            self._begin(number, 1)
        first = min(self._ahead)
        n_windows, future = self._ahead[first]
        if len(self._ahead) == 1:
            self._begin(first + n_windows, min(2 * n_windows, self.most_windows))
        try:
            haul = future.result()
        except OSError as error:
            raise InputError(
                f"The unlabelled rows cannot be read any more ({error.strerror or error}); put their files back, and "
                "resume the training if it has a run folder."
            ) from error
        place = number - first
        targets = None if haul.targets is None else haul.targets[place]
        x, on_u, places = self._placed((haul.rows[place], targets, self.places))
        data = self.data._replace(x_unlabeled=x, targets=on_u, outside=None)
        return Window(data, haul.blocks[place]._replace(unlabeled_rows=places), (number + 1) * self.length)

    def data_shapes(self) -> TrainingData:
        """The data of any window, with shapes instead of what is read."""
        rows, n = self.outside.rows, self.length * self.rows_a_step
        x: Any = jax.ShapeDtypeStruct((n, *rows.shape[1:]), rows.dtype)
        targets: Any = None
        if self.outside.targets_at is not None:
            n_members = len(self.outside.targets_at(np.zeros(0, np.int64)))
            targets = jax.ShapeDtypeStruct((n_members, n), jnp.int32)
        return self.data._replace(x_unlabeled=x, targets=targets, outside=None)

    def _places(self) -> np.ndarray:
        """Where a window has the rows of each lane and step, int32 `[R, T, B']`."""
        lanes, steps = np.ogrid[: self.lanes.n_lanes, : self.block_length]
        first = (lanes * self.length + steps % self.length) * self.program.unlabeled_batch_size
        return (first[..., None] + np.arange(self.program.unlabeled_batch_size)).astype(np.int32)

    def _begin(self, first: int, n_windows: int) -> None:
        future = self._reader.submit(with_settings_of_here(self._read), first, n_windows)
        self._ahead[first] = n_windows, future

    def _read(self, first: int, n_windows: int) -> Haul:
        """Draws and takes the rows of windows; in the reader's thread, one haul after another."""
        blocks: list[Block] = []
        wanted: list[np.ndarray] = []
        for number in range(first, first + n_windows):
            of_block, begin = divmod(number * self.length, self.block_length)
            again = bool(blocks) and begin > 0
            drawn = (self.program, self.lanes, self.data, of_block, self._orders)
            blocks.append(blocks[-1] if again else block_of(*drawn))
            wanted.append(np.asarray(blocks[-1].unlabeled_rows)[:, begin : begin + self.length].reshape(-1))
        together = np.concatenate(wanted)
        order = np.argsort(together)
        taken = self.outside.rows.take(together[order])
        rows = np.empty_like(taken)
        rows[order] = taken
        targets = None
        if self.outside.targets_at is not None:
            targets = [self.outside.targets_at(of_window) for of_window in wanted]
        return Haul(blocks, rows.reshape(n_windows, -1, *rows.shape[1:]), targets)

    def _placed(self, arrays: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        if self.mesh is None:
            return jax.device_put(arrays)
        rows, targets, places = arrays
        shared = jax.device_put((rows, targets), NamedSharding(self.mesh, P()))
        return *shared, jax.device_put(places, NamedSharding(self.mesh, P("lanes")))

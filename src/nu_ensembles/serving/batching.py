"""Requests that come at once are answered at once: a program of many rows takes hardly longer than one of one row.

While a batch is computed, in a thread of its own, the requests that come in wait, and then make up the next batch.
Nobody waits for a batch to fill: a single request is a batch.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nu_ensembles.export import CompiledEnsemble

Answer = dict[str, np.ndarray]


class Batcher:
    """Answers rows of concurrent requests together; belongs to one event loop.

    Args:
      compiled: what computes.

    Attributes:
      n_batches, n_rows: how much has been computed.
    """

    def __init__(self, compiled: CompiledEnsemble) -> None:
        self.compiled = compiled
        self.n_batches = self.n_rows = 0
        self._waiting: list[tuple[np.ndarray, asyncio.Future[Answer]]] = []
        self._thread = ThreadPoolExecutor(1, "nu-ensembles-batches")
        self._running = False

    async def answer(self, rows: np.ndarray) -> Answer:
        """The outputs for network rows `[n, …]` of one request."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._begin)
        return await future

    def close(self) -> None:
        """Ends the thread; what is being computed is finished first."""
        self._thread.shutdown(wait=True)

    def _begin(self) -> None:
        """Takes what waits, up to a program's rows (a larger request alone), and has it computed."""
        taken, n_rows = [], 0
        while self._waiting and (not taken or n_rows + len(self._waiting[0][0]) <= self.compiled.most_rows):
            rows, future = self._waiting.pop(0)
            taken.append((rows, future))
            n_rows += len(rows)
        if not taken:
            self._running = False
            return
        parts = [rows for rows, _ in taken]
        loop = asyncio.get_running_loop()
        batch = parts[0] if len(parts) == 1 else np.concatenate(parts)
        done = loop.run_in_executor(self._thread, self.compiled.answer_rows, batch)
        done.add_done_callback(lambda done: self._finish(done, [(len(rows), future) for rows, future in taken]))

    def _finish(self, done: asyncio.Future[Answer], taken: list[tuple[int, asyncio.Future[Answer]]]) -> None:
        error = done.exception()
        start = 0
        for n_rows, future in taken:
            part = slice(start, start + n_rows)
            start += n_rows
            if future.done():  # whoever asked has gone
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result({name: value[part] for name, value in done.result().items()})
        self.n_batches += 1
        self.n_rows += start
        self._begin()

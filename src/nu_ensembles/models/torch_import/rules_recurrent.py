"""Rules for recurrent layers: LSTM, GRU and plain ones, several layers deep and in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.models.torch_import.rules import torch_rule
from nu_ensembles.models.torch_import.rules_random import dropped

# cell(what enters, transformed; what was carried; how that is transformed) -> what is carried on; the first goes out
Cell = Callable[[Array, tuple[Array, ...], Callable[[Array], Array]], tuple[Array, ...]]


def _lstm(given: Array, carried: tuple[Array, ...], transform: Callable[[Array], Array]) -> tuple[Array, ...]:
    h, c = carried
    i, f, g, o = jnp.split(given + transform(h), 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru(given: Array, carried: tuple[Array, ...], transform: Callable[[Array], Array]) -> tuple[Array, ...]:
    (h,) = carried
    (r, z, n), (hr, hz, hn) = jnp.split(given, 3, axis=-1), jnp.split(transform(h), 3, axis=-1)
    update = jax.nn.sigmoid(z + hz)
    new = jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn)
    return ((1 - update) * new + update * h,)


def _plain(activation: Callable[[Array], Array]) -> Cell:
    return lambda given, carried, transform: (activation(given + transform(carried[0])),)


def _layers(
    cell: Cell,
    x: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    key: Array | None,
) -> tuple[Array, ...]:
    """`x[T, B, F]` (or `[B, T, F]`) through all layers: the last one's outputs, and every state, `[layers, B, H]`."""
    n_directions = 1 + bidirectional
    a_cell = len(params) // (num_layers * n_directions)  # a projection's weight would be one more
    keys = None if key is None else jax.random.split(key, num_layers)
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    last: list[tuple[Array, ...]] = []
    for layer in range(num_layers):
        if layer and train and keys is not None:
            x = dropped(x, dropout, keys[layer])
        outputs = []
        for direction in range(n_directions):
            number = layer * n_directions + direction
            w_in, w_carried, *more = params[number * a_cell : (number + 1) * a_cell]
            b_in, b_carried = more[:2] if has_biases else (0.0, 0.0)
            project = more[-1] if len(more) % 2 else None

            def step(
                carried: tuple[Array, ...], given: Array, w: Any = w_carried, b: Any = b_carried, p: Any = project
            ):
                first, *others = cell(given, carried, lambda h: h @ w.T + b)
                first = first if p is None else first @ p.T
                return (first, *others), first

            start = tuple(state[number] for state in states)
            end, out = lax.scan(step, start, x @ w_in.T + b_in, reverse=direction == 1)
            outputs.append(out)
            last.append(end)
        x = jnp.concatenate(outputs, axis=-1)
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    return x, *(jnp.stack(each) for each in zip(*last, strict=True))


@torch_rule("aten.lstm.input", draws=True)
def lstm(x: Array, states: Sequence[Array], *arguments: Any, key: Array | None) -> tuple[Array, ...]:
    return _layers(_lstm, x, states, *arguments, key=key)


@torch_rule("aten.gru.input", draws=True)
def gru(x: Array, state: Array, *arguments: Any, key: Array | None) -> tuple[Array, ...]:
    return _layers(_gru, x, [state], *arguments, key=key)


@torch_rule("aten.rnn_tanh.input", draws=True)
def rnn_tanh(x: Array, state: Array, *arguments: Any, key: Array | None) -> tuple[Array, ...]:
    return _layers(_plain(jnp.tanh), x, [state], *arguments, key=key)


@torch_rule("aten.rnn_relu.input", draws=True)
def rnn_relu(x: Array, state: Array, *arguments: Any, key: Array | None) -> tuple[Array, ...]:
    return _layers(_plain(jax.nn.relu), x, [state], *arguments, key=key)

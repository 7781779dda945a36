"""From rows and members to what the engine trains: a program, data on the device, and lanes with their keys.

Everything that trains is assembled here: the members of one ensemble, the folds and candidates of a search, the
ensembles of a study. Each is a `MemberSet`, and all sets of an assembly share one compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.fast.compilation import note_program, use_persistent_cache
from nu_ensembles.engine.program import Lanes, OutsideRows, Program, TrainingData
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Method, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.rows import LazyRows

# Folded into the seed for the random labels; members fold in their own number, which never gets this high.
LABELS = np.uint32(0xFFFFFFFF)


class MemberSet(NamedTuple):
    """Members that share a seed, a method and their labelled rows.

    key: of the seed; a member's own key comes from it and the member's number alone.
    members: their numbers.
    rows: numbers of the labelled rows that they train on (a fold's training part); None for all.
    labels_key: of the seed that the random labels are drawn from; None for `key`.
    learning_rates, weight_decays: one for each member, instead of those of the settings.
    """

    key: Array
    members: Sequence[int]
    method: Method
    rows: np.ndarray | None = None
    labels_key: Array | None = None
    learning_rates: Sequence[float] | None = None
    weight_decays: Sequence[float] | None = None


class Assembly(NamedTuple):
    """What the engine trains: the lanes of all sets, one set after another."""

    program: Program
    lanes: Lanes
    data: TrainingData


def assemble(
    model: Model, settings: Settings, rows: TrainingRows, n_classes: int, sets: Sequence[MemberSet]
) -> Assembly:
    """Puts sets of members on the device, ready to train.

    Args:
      rows: labelled and unlabelled rows; the latter are left out where the method does not use them.
      sets: of one kind of method.

    Raises:
      InputError: the method cannot train under these settings.
    """
    use_persistent_cache()
    method = sets[0].method
    settings.check(method, rows.x.shape[1:])
    u = rows.x_unlabeled if method.uses_unlabeled else None
    n_rows = [len(rows.x) if each.rows is None else len(each.rows) for each in sets]
    program = settings.program(model, min(n_rows), 0 if u is None else len(u))
    note_program((program, rows.x.shape[1:], sum(len(each.members) for each in sets)))
    label_keys, offsets, n_members = _label_keys(sets)
    lanes = _lanes(sets, n_rows, offsets, settings)
    if isinstance(u, LazyRows):
        outside = OutsideRows(u, _targets_at(method, label_keys, len(u), n_classes, n_members))
        data = on_device(rows._replace(x_unlabeled=None), None)
        return Assembly(program, lanes, data._replace(n_unlabeled=jax.device_put(np.int32(len(u))), outside=outside))
    targets = None if u is None else _targets(method, label_keys, len(u), n_classes, n_members)
    return Assembly(program, lanes, on_device(rows._replace(x_unlabeled=u), targets))


def _label_keys(sets: Sequence[MemberSet]) -> tuple[list[Array], list[int], int]:
    """The different keys of random labels, where those of each set begin, and how many members draw from each."""
    n_members = max(max(each.members) for each in sets) + 1
    keys = [each.key if each.labels_key is None else each.labels_key for each in sets]
    names = [np.asarray(jax.random.key_data(key)).tobytes() for key in keys]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    different = [label_key(keys[names.index(name)]) for name in places]
    return different, [places[name] * n_members for name in names], n_members


def _targets(
    method: Method, keys: Sequence[Array], n_unlabeled: int, n_classes: int, n_members: int
) -> np.ndarray | None:
    """The labels on the unlabelled rows, `[keys * K, M]` or None."""
    drawn = [method.unlabeled_targets(key, n_unlabeled, n_classes, n_members) for key in keys]
    return None if drawn[0] is None else np.concatenate([np.asarray(labels) for labels in drawn])


def _targets_at(
    method: Method, keys: Sequence[Array], n_unlabeled: int, n_classes: int, n_members: int
) -> Callable[[np.ndarray], np.ndarray] | None:
    """The columns of `_targets` of given rows, drawn when they are asked for; None where there are no labels."""
    draw = [method.unlabeled_targets_at(key, n_unlabeled, n_classes, n_members) for key in keys]
    if draw[0] is None:
        return None
    return lambda rows: np.concatenate([of_key(rows) for of_key in draw if of_key is not None])


def _lanes(sets: Sequence[MemberSet], n_rows: Sequence[int], offsets: Sequence[int], settings: Settings) -> Lanes:
    n_padded = padded_size(max(n_rows))
    keys, numbers, tables, rates, decays = [], [], [], [], []
    for each, offset, n in zip(sets, offsets, n_rows, strict=True):
        members = np.asarray(each.members, np.int32)
        keys.append(_member_keys(each.key, members))
        numbers.append(members + np.int32(offset))
        table = np.arange(n_padded, dtype=np.int32)
        if each.rows is not None:
            table = np.zeros(n_padded, np.int32)
            table[:n] = each.rows
        tables.append(np.tile(table, (len(members), 1)))
        rates.append(_each(each.learning_rates, settings.learning_rate, len(members), settings.dtype))
        decays.append(_each(each.weight_decays, settings.weight_decay, len(members), settings.dtype))
    sizes = [len(each.members) for each in sets]
    methods = [
        jax.tree.map(lambda v, n=n: np.full(n, v, np.float32), s.method) for s, n in zip(sets, sizes, strict=True)
    ]
    # Filled by NumPy: each little operation of JAX is a program to compile, in every process anew.
    return Lanes(
        key=keys[0] if len(keys) == 1 else _joined_keys(keys),
        member=jax.device_put(np.concatenate(numbers)),
        rows=jax.device_put(np.concatenate(tables)),
        n_rows=jax.device_put(np.repeat(np.asarray(n_rows, np.int32), sizes)),
        method=jax.tree.map(lambda *parts: jax.device_put(np.concatenate(parts)), *methods),
        learning_rate=jax.device_put(np.concatenate(rates)),
        weight_decay=jax.device_put(np.concatenate(decays)),
    )


def _each(given: Sequence[float] | None, usual: float, n: int, dtype: str) -> np.ndarray:
    return np.full(n, usual, dtype) if given is None else np.asarray(given, dtype)


def on_device(rows: TrainingRows, targets: np.ndarray | None) -> TrainingData:
    """The data on the device, padded so that sets of similar size share one program."""
    data = TrainingData(_padded(rows.x), _padded(rows.y), _padded(rows.weight))
    if rows.x_unlabeled is None:
        return data
    n_unlabeled = len(rows.x_unlabeled)
    on_u = None
    if targets is not None:
        missing = padded_size(n_unlabeled) - n_unlabeled
        on_u = jax.device_put(np.pad(targets, ((0, 0), (0, missing))))
    return data._replace(
        x_unlabeled=_padded(rows.x_unlabeled), n_unlabeled=jax.device_put(np.int32(n_unlabeled)), targets=on_u
    )


_folded_in = jax.jit(jax.random.fold_in)


@jax.jit
def _member_keys(seed_key: Array, members: Array) -> Array:
    return jax.vmap(lambda member: jax.random.fold_in(seed_key, member))(members)


def _joined_keys(keys: Sequence[Array]) -> Array:
    impl = str(jax.random.key_impl(keys[0]))
    words = np.concatenate([np.asarray(jax.random.key_data(each)) for each in keys])
    return jax.random.wrap_key_data(jax.device_put(words), impl=impl)


def label_key(seed_key: Array) -> Array:
    """The key of the random labels of a seed."""
    return _folded_in(seed_key, LABELS)


def _padded(rows: np.ndarray) -> Array:
    missing = padded_size(len(rows)) - len(rows)
    return jax.device_put(np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows)

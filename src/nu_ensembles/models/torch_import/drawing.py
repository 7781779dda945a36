"""How members of a PyTorch network start: the factory is called under a seed of the member's own; needs PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import nn

from nu_ensembles.errors import InputError
from nu_ensembles.models.seeding import noted_failure, seeded
from nu_ensembles.models.torch_import.reading import as_array


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PyTorch's generator starts from a seed, as those of Python and NumPy do, and goes on as if nothing had been."""
    with seeded(seed):
        state = torch.get_rng_state()
        try:
            torch.default_generator.manual_seed(seed)
            with torch.device("cpu"):
                yield
        finally:
            torch.set_rng_state(state)


class Factory:
    """Makes the networks of members.

    Args:
      make: `() -> nn.Module`.
      same_start: all members start from the weights of one call.
      fresh: names of submodules whose weights are drawn anew by their own `reset_parameters`, member by member.
      example: a batch, by which lazy layers find their sizes.
    """

    def __init__(
        self, make: Callable[[], nn.Module], same_start: bool, fresh: Sequence[str], example: torch.Tensor
    ) -> None:
        self.make, self.fresh, self.example = make, tuple(fresh), example
        self.kinds: list[tuple[str, str]] | None = None
        self.first = self._made(0) if same_start else None

    def network(self, seed: int) -> nn.Module:
        """A network with the weights that belong to a seed."""
        network = self._made(seed) if self.first is None else self.first
        if not self.fresh:
            return network
        network = copy.deepcopy(network)  # the factory may give out the same one again
        with _seeded(seed):
            for name in self.fresh:
                _reset(name, network)
        return network

    def _made(self, seed: int) -> nn.Module:
        with _seeded(seed):
            network = self.make()
            if not isinstance(network, nn.Module):
                raise InputError(
                    f"from_torch takes a factory that returns an nn.Module, not a {type(network).__name__}."
                )
            if any(isinstance(each, nn.parameter.UninitializedParameter) for each in network.parameters()):
                with torch.no_grad():
                    network(self.example)
        self._refuse_other_modules(network)
        return network

    def _refuse_other_modules(self, network: nn.Module) -> None:
        """Layers of other kinds may have weights of the same shapes, or none."""
        kinds = [(name, type(module).__qualname__) for name, module in network.named_modules()]
        if self.kinds is None:
            self.kinds = kinds
        for (name, was), (now_name, now) in zip_longest(self.kinds, kinds, fillvalue=("", "nothing")):
            if (name, was) != (now_name, now):
                raise InputError(
                    "The factory must return the same network every time, but for its weights: "
                    f"{name or now_name} was {was} and is now {now}."
                )


def _reset(name: str, network: nn.Module) -> None:
    try:
        part = network.get_submodule(name)
    except AttributeError as error:
        raise InputError(f"fresh names the submodule {name!r}, which the network does not have.") from error
    for where, module in part.named_modules(prefix=name):
        reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
        if reset is not None:
            reset()
        elif list(module.parameters(recurse=False)):
            raise InputError(
                f"{where} cannot be drawn anew: a {type(module).__name__} has weights but no reset_parameters(); "
                "give it one, or let the factory draw it."
            )


def named_tensors(network: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, each once."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def second_names(network: nn.Module) -> dict[str, str]:
    """Further names of tensors that a network knows by several -> the name in `named_tensors`."""
    first = {id(tensor): name for name, tensor in named_tensors(network).items()}
    every = (*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False))
    return {name: first[id(tensor)] for name, tensor in every if first[id(tensor)] != name}


def drawn(factory: Factory, expected: Mapping[str, Any], key_data: np.ndarray) -> dict[str, np.ndarray]:
    """The tensors of a member.

    Args:
      expected: shapes and dtypes of those that are asked for.
      key_data: uint32, what a key is made of.
    """
    with noted_failure():
        network = factory.network(int.from_bytes(np.asarray(key_data).tobytes()[-8:], "little") % 2**63)
        tensors = named_tensors(network)
        check_structure({name: tuple(each.shape) for name, each in expected.items()}, tensors)
    return {name: as_array(tensors[name]).astype(each.dtype) for name, each in expected.items()}


def check_structure(shapes: Mapping[str, tuple[int, ...]], tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuses a factory that returns now this network, now that."""
    for name, shape in shapes.items():
        found = tuple(tensors[name].shape) if name in tensors else None
        if found != shape:
            raise InputError(
                f"The factory must return the same network every time, but for its weights: {name} was {shape} and is "
                f"now {'missing' if found is None else found}."
            )

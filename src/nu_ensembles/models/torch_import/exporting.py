"""From a PyTorch module to an exported program whose operations all have rules; needs PyTorch.

A network is exported once in training mode and once in prediction, with a batch of any size.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import contextlib
import io
import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.models.torch_import.reading import operation_name, operations
from nu_ensembles.models.torch_import.rules import RULES

ATEN: Any = torch.ops.aten
# Rows of the batch that is exported. Its size stays open, but one that is also some layer's could be taken for it.
EXPORTED_ROWS = 7


class Outputs(nn.Module):
    """A network that gives its logits, and, if asked, what enters one of its modules."""

    def __init__(self, network: nn.Module, features: str | None) -> None:
        super().__init__()
        self.network = network
        self.features = features

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.features is None:
            return (logits_of(self.network(x)),)
        seen: list[Tensor] = []

        def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen.append(next(each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)))

        module = self.network.get_submodule(self.features)
        with module.register_forward_pre_hook(look, with_kwargs=True):
            logits = logits_of(self.network(x))
        if not seen:
            raise InputError(f"The network does not call its submodule {self.features!r}, so nothing enters it.")
        return logits, seen[-1].flatten(1)


def logits_of(output: Any) -> Tensor:
    """The logits in what a network returns: a tensor, an object or dict with logits, or a tuple that begins so."""
    logits: Any = output
    if isinstance(output, dict) and "logits" in output:
        logits = output["logits"]
    elif (named := getattr(output, "logits", None)) is not None:
        logits = named
    elif isinstance(output, (tuple, list)) and output:
        logits = output[0]
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        found = f"a tensor with {logits.ndim} axes" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise InputError(f"A PyTorch network must return logits [B, C]; this one returns {found}.")
    return logits


def set_mode(network: nn.Module, train: bool) -> None:
    """`train()` or `eval()`; submodules that stand in `eval()` inside a network that trains stay there in training."""
    frozen = [module for module in network.modules() if not module.training] if network.training else []
    network.train(train)
    for module in frozen:
        module.eval()


def check_network(network: nn.Module, example: Tensor, features: str | None) -> None:
    """Runs a network once in PyTorch, to refuse in plain words what cannot be imported.

    Raises:
      InputError: it fails, returns no logits, lies on another device, or has a backward pass written by hand.
    """
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        if tensor.device.type != "cpu":
            raise InputError(
                f"The network's {name} is on the device {tensor.device}; let the factory make it on the CPU (its "
                "members train where JAX computes)."
            )
    if features is not None and features not in dict(network.named_modules()):
        raise unknown_name("submodule", features, dict(network.named_children()))
    try:
        with torch.enable_grad(), _quietly():
            outputs = Outputs(network, features)(example)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The network fails on the example of shape {tuple(example.shape)} in PyTorch already: {_reason(error)}"
        ) from error
    if by_hand := sorted(set(_functions_by_hand(outputs[0]))):
        raise InputError(
            f"torch.export drops backward passes that are written by hand ({', '.join(by_hand)}); make each a "
            "torch.library.custom_op, and give it a rule with models.torch_rule that uses jax.custom_vjp."
        )


def _functions_by_hand(output: Tensor) -> Iterator[str]:
    """Names of the `torch.autograd.Function`s of the user's own on the way to an output."""
    waiting, seen = [output.grad_fn], set()
    while waiting:
        function = waiting.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if isinstance(function, torch.autograd.function.BackwardCFunction):
            yield type(function).__name__.removesuffix("Backward")
        waiting += [following for following, _ in function.next_functions]


def export(network: nn.Module, example: Tensor, features: str | None, train: bool) -> Any:
    """A network in one mode as an exported program, whose operations have rules but for those in `missing_rules`."""
    set_mode(network, train)
    rows = example[:1].expand(EXPORTED_ROWS, *example.shape[1:]).clone()
    batch = torch.export.Dim("batch")
    try:
        with torch.enable_grad(), _quietly():
            exported = torch.export.export(Outputs(network, features), (rows,), dynamic_shapes=({0: batch},))
            _cut_gradients(exported.graph_module)
            program = _in_known_operations(exported)
    except Exception as error:
        raise InputError(_refusal(error, train)) from error
    _refuse_open_sizes(program)
    return program


def _refuse_open_sizes(program: Any) -> None:
    """JAX compiles for sizes, so none may hang on values, as in `x[x > 0]`."""
    for node in program.graph.nodes:
        found = node.meta.get("val")
        if isinstance(found, Tensor) and free_unbacked_symbols(found):
            raise InputError(
                f"The network's {operation_name(node.target)} gives a tensor whose size hangs on values, as x[x > 0] "
                "does; keep all values, and let torch.where choose among them."
            )


def _in_known_operations(exported: Any) -> Any:
    """Without operations in place, and with those that have no rule made of smaller ones where PyTorch knows how."""
    table = torch.export.default_decompositions()
    # Its running statistics change in place behind the schema's back; its parts say so.
    split = {ATEN.instance_norm.default} if any(map(_updates_statistics, exported.graph.nodes)) else set()
    exported = exported.run_decompositions({each: table[each] for each in split})
    for _ in range(8):
        missing = {target for name, target in operations(exported) if name not in RULES}
        smaller = {each: table[each] for each in missing if each in table}
        if not smaller:
            break
        exported = exported.run_decompositions(smaller)
    return exported


def missing_rules(*programs: Any) -> list[str]:
    """Names of the operations of exported programs that have no rule, in alphabetical order."""
    return sorted({name for program in programs for name, _ in operations(program) if name not in RULES})


def _updates_statistics(node: Any) -> bool:
    return node.target is ATEN.instance_norm.default and node.args[3] is not None and bool(node.args[5])


def _cut_gradients(module: Any) -> None:
    """Detaches what enters the parts that PyTorch computes without gradients, which the next export would forget."""
    for node in module.graph.nodes:
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        part = module.get_submodule(node.args[1].target)
        entering = [each for each in part.graph.nodes if each.op == "placeholder"]
        with part.graph.inserting_before(next(each for each in part.graph.nodes if each.op != "placeholder")):
            for each in entering:
                if isinstance(each.meta.get("val"), Tensor) and each.meta["val"].is_floating_point():
                    detached = part.graph.call_function(ATEN.detach.default, (each,))
                    detached.meta = dict(each.meta)
                    each.replace_all_uses_with(detached, delete_user_cb=lambda user, own=detached: user is not own)
        part.recompile()


def _refusal(error: BaseException, train: bool) -> str:
    """Why a network cannot be exported, in a sentence or two."""
    if "Constraints violated (batch)" in str(error):
        lines = [line.strip("- ") for line in str(error).splitlines() if line.strip().startswith("-")]
        return (
            f"The network must take batches of any size; torch.export finds that it does not: {_sentence(lines[0])} "
            "Write sizes with x.shape[0] or -1, not with a number of rows."
        )
    mode = " in training" if train else ""
    return (
        f"torch.export cannot turn the network into a graph{mode}: {_reason(error)}{_place(error)} What hangs on "
        "values is written with torch.where, not with if or item(); see docs/pytorch.md."
    )


def _place(error: BaseException) -> str:
    """The line of the network's own code in which an exception arose, in brackets."""
    theirs = str(Path(str(torch.__file__)).parent), str(Path(__file__).parent)
    lines = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(theirs)]
    return f" (line {lines[-1].lineno} of {lines[-1].filename})" if lines else ""


def _reason(error: BaseException) -> str:
    """An exception's name and the first sentence of what it says."""
    return f"{type(error).__name__}: {_sentence(str(error))}"


def _sentence(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    return re.split(r"\.(?=\s)| \(unhinted", lines[0])[0][:300].rstrip(".") + "."


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without PyTorch's warnings, logs and prints, and without its fused attention, which says nothing of its parts."""
    fused = torch.backends.mha.get_fastpath_enabled()
    disabled = logging.root.manager.disable
    torch.backends.mha.set_fastpath_enabled(False)
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        torch.backends.mha.set_fastpath_enabled(fused)

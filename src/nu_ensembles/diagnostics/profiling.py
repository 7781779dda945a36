"""Where a step's time goes: kernels of the device, read from JAX's own trace and sorted by what they do.

XLA names a fused kernel after operations in it, and libraries' kernels speak for themselves. The classes follow these
names; a fusion that both moves and computes counts as computing.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
from jax.profiler import ProfileData, ProfileOptions

from nu_ensembles.diagnostics.rehearsal import Rehearsal

Kind = Literal[
    "convolution",
    "matrix product",
    "optimiser, elementwise",
    "reduction",
    "copy, transposition",
    "random numbers, sorting",
    "other",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

_CONVOLUTION = re.compile(r"conv(?!ert)|fprop|dgrad|wgrad|cudnn|winograd|implicit_gemm")
_PRODUCT = re.compile(r"gemm|nvjet|cublas|cutlass|matmul|split_?k")
_SORTING = re.compile(r"threefry|rng|random|sort|cub::")
# `ynn` is XLA's library on the CPU; exclusive or is what random bits are made by.
_PRODUCT_WORDS, _BITS = re.compile(r"\b(dot|ynn|onednn)\b"), re.compile(r"\b(xor|or|shift)\b")
_COMPUTING = re.compile(
    r"\b(add|subtract|multiply|divide|select|maximum|minimum|exponential|log|tanh|power|r?sqrt|compare|negate|and|not|"
    r"clamp|abs|sign|cosine|sine|logistic|remainder|floor)\b"
)
_MOVING = re.compile(
    r"\b(copy|transpose|pad|concatenate|slice|gather|scatter|reverse|bitcast|broadcast|iota|memcpy\w*|memset|update)\b"
)
_OPERATIONS: tuple[tuple[str, Kind], ...] = (
    ("convolution", "convolution"),
    ("dot", "matrix product"),
    ("reduce", "reduction"),
)
# They hold other kernels, which are counted themselves.
_CONTAINERS = {"while", "call", "conditional", "command", "async", "tuple"}


def kind_of(kernel: str) -> Kind:
    """What a kernel of this name does."""
    name = kernel.lower()
    words = re.sub(r"[^a-z]+", " ", name)
    if _CONVOLUTION.search(name):
        return "convolution"
    if _PRODUCT.search(name) or _PRODUCT_WORDS.search(words):
        return "matrix product"
    if _SORTING.search(name) or _BITS.search(words):
        return "random numbers, sorting"
    if "reduce" in words:
        return "reduction"
    if _COMPUTING.search(words):
        return "optimiser, elementwise"
    if _MOVING.search(words):
        return "copy, transposition"
    return "optimiser, elementwise" if re.search(r"fusion|wrapped|convert", words) else "other"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel in a step of all members: milliseconds, and how often it runs."""

    name: str
    kind: Kind
    ms: float
    calls: float


@dataclasses.dataclass(frozen=True)
class StepProfile:
    """A step of all members.

    Attributes:
      ms: by the clock, without tracing; compile_s: until the first step was done.
      kernels: largest first. On a CPU their times add up over threads and may exceed `ms`.
      on_gpu: whether the kernels are a GPU's; they then mostly run one after another, and what is missing is waiting.
    """

    ms: float
    compile_s: float
    kernels: tuple[Kernel, ...]
    on_gpu: bool

    @property
    def kernel_ms(self) -> float:
        return sum(kernel.ms for kernel in self.kernels)

    def by_kind(self) -> dict[Kind, float]:
        """Milliseconds of every class of kernels, largest first."""
        total: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
        for kernel in self.kernels:
            total[kernel.kind] += kernel.ms
        return dict(sorted(total.items(), key=lambda item: -item[1]))


class Event(NamedTuple):
    """One run of a kernel: its name, nanoseconds, and the compiled program that it belongs to ("" on a GPU)."""

    name: str
    duration: float
    module: str = ""


def profile_steps(rehearsal: Rehearsal, n_steps: int, n_traced: int = 16) -> StepProfile:
    """Times `n_steps` steps, then traces `n_traced` more."""
    rehearsal.advance(n_traced)  # the first ones are slower: draws of a block, allocations
    ms = rehearsal.advance(n_steps)
    options = ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory(prefix="nu-ensembles-trace-") as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            before = rehearsal.run.step
            rehearsal.advance(n_traced)
            n_traced = rehearsal.run.step - before
        (path,) = Path(folder).rglob("*.xplane.pb")
        with warnings.catch_warnings():
            # jaxlib defines types on first use in a way that Python 3.12 warns of; as an error that ends the process.
            warnings.simplefilter("ignore", DeprecationWarning)
            on_gpu, events = device_events(ProfileData.from_file(str(path)))
            kernels = added_up(events, n_traced / rehearsal.n_groups, library_fusions())
    return StepProfile(ms, rehearsal.compile_s, kernels, on_gpu)


def device_events(data: Any) -> tuple[bool, Iterator[Event]]:
    """Whether a GPU was traced, and everything that ran on it, or else on the CPU.

    Args:
      data: a `jax.profiler.ProfileData`.
    """
    gpu = data.find_plane_with_name("/device:GPU:0")
    if gpu is not None:
        streams = (line for line in gpu.lines if line.name.startswith("Stream"))
        return True, (Event(event.name, event.duration_ns) for line in streams for event in line.events)

    def on_cpu() -> Iterator[Event]:
        host = data.find_plane_with_name("/host:CPU")
        for line in host.lines if host is not None else ():
            for event in line.events:
                stats = dict(event.stats)
                # Only what belongs to a compiled program has this.
                if "hlo_op" in stats:
                    yield Event(event.name, event.duration_ns, str(stats.get("hlo_module", "")))

    return False, on_cpu()


def library_fusions() -> dict[tuple[str, str], Kind]:
    """(program, kernel) -> class, where XLA handed several operations to a library and named the kernel after it."""
    found: dict[tuple[str, str], Kind] = {}
    for executable in jax.devices()[0].client.live_executables():
        for module in executable.hlo_modules():
            text = module.to_string()
            bodies = re.split(r"^(?:ENTRY )?%", text, flags=re.MULTILINE)[1:]
            kinds: dict[str, Kind] = {body.split(" ", 1)[0]: _kind_of_body(body) for body in bodies}
            for fusion, body in re.findall(r"%(\S+) = .* fusion\(.*kind=kCustom, calls=%([\w.-]+)", text):
                found[module.name, fusion] = kinds[body]
    return found


def _kind_of_body(text: str) -> Kind:
    for operation, kind in _OPERATIONS:
        if f" {operation}(" in text:
            return kind
    return "optimiser, elementwise"


def added_up(
    events: Iterable[Event], n_steps: float, known: Mapping[tuple[str, str], Kind] | None = None
) -> tuple[Kernel, ...]:
    """Events by kernel, a step, largest first; numbers that tell copies of a kernel apart (`fusion.3`) are dropped.

    Args:
      known: (program, kernel) -> class, where the name does not tell.
    """
    nanoseconds: dict[tuple[str, Kind], float] = defaultdict(float)
    calls: Counter[tuple[str, Kind]] = Counter()
    for event in events:
        name = re.sub(r"([._]\d+)+$", "", event.name)
        if re.split("[-_]", name)[0] in _CONTAINERS:
            continue
        kernel = name, (known or {}).get((event.module, event.name)) or kind_of(name)
        nanoseconds[kernel] += event.duration
        calls[kernel] += 1
    kernels = [Kernel(*kernel, total / n_steps / 1e6, calls[kernel] / n_steps) for kernel, total in nanoseconds.items()]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.ms))

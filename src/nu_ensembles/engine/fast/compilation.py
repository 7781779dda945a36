"""What makes compiling short: a cache on disk, and slow kernels that the search for fast ones leaves out.

JAX's persistent cache is switched on at the first fit, so that a second process compiles nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import warnings
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import jax

from nu_ensembles.backend import Backend

SWITCH = "NU_ENSEMBLES_COMPILATION_CACHE"
MOST_BYTES = 1 << 30
# What one process keeps of the programs that it has compiled; `make torture` measures what fits of ever-new shapes add.
MOST_PROGRAMS, PROGRAMS_BETWEEN_TRIMS = 128, 8
_programs: set[Hashable] = set()
# Names the file in which cuDNN's frontend looks up, once a process, which engines to leave out.
ENGINE_RULES = "CUDNN_ERRATA_JSON_FILE"
SLOW_ENGINES = Path(__file__).with_name("slow_cudnn_engines.json")
# XLA compiles and times two or three forms of every sum and every transposition. A deep network has dozens; timing them
# makes its steps less than a hundredth faster (`python benchmarks/compiler_options.py --only WRN`).
FEWER_TRIALS = {"xla_gpu_experimental_enable_fusion_autotuner": False}


# What makes XLA give the same bits on every run on a GPU: no kernel that adds up in changing order, and none that is
# chosen by timing it. A CPU does so anyway.
SAME_BITS = {"xla_gpu_deterministic_ops": True}


def jitted_quickly(function: Callable[..., Any], **options: Any) -> jax.stages.Wrapped:
    """`jax.jit` for programs that run before the steps or once in hundreds of them.

    On a GPU XLA takes the first kernels that do instead of timing several; they are compiled beside the steps, whose
    kernels are timed meanwhile. On a CPU LLVM does less: threefry is long code, and optimising it in full was half of
    the time before a perceptron's first step. Steps take as long, and all bits are the same ("draws compiled quickly"
    in `benchmarks/what_speed_costs.py`). A level that is set for the whole process is heeded.
    """
    level = "xla_backend_optimization_level"
    quick: dict[str, Any] = {"xla_gpu_autotune_level": 0}
    if level not in os.environ.get("XLA_FLAGS", ""):
        quick[level] = 1
    return jax.jit(function, compiler_options=quick, **options)


def step_options(deterministic: bool, n_convolutions: int) -> tuple[tuple[str, Any], ...]:
    """The compiler's options for the steps of a network with so many convolutions."""
    if deterministic:
        return tuple(SAME_BITS.items())
    trial_free_from = Backend.current().trial_free_from
    if trial_free_from is not None and n_convolutions >= trial_free_from and knows_options(*FEWER_TRIALS):
        return tuple(FEWER_TRIALS.items())
    return ()


@functools.cache
def knows_options(*names: str) -> bool:
    """Whether this version of XLA still has these on/off options; those called experimental come and go."""
    try:
        jax.jit(lambda: 0, compiler_options=dict.fromkeys(names, False)).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def switched_off(variable: str) -> bool:
    """Whether the user has set a variable of the environment to "off" or the like."""
    return os.environ.get(variable, "").lower() in ("off", "0", "no", "false")


def cache_folder() -> Path | None:
    """The per-user folder of compiled programs; None if `NU_ENSEMBLES_COMPILATION_CACHE=off` or homeless."""
    if switched_off(SWITCH):
        return None
    chosen = os.environ.get(SWITCH, "")
    if chosen:
        return Path(chosen)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None  # a container's user without a home
    return Path(base) / "nu-ensembles" / "compiled"


@functools.cache
def use_persistent_cache() -> None:
    """Switches the cache on unless the user has set one (or has switched ours off). Once a process."""
    folder = cache_folder()
    if folder is None or jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _others_can_write(folder):
            warnings.warn(
                f"Compiled programs are not kept in {folder}, because others can write there and would have them run: "
                f"take their right away (chmod go-w), or set {SWITCH} to a folder of your own.",
                stacklevel=2,
            )
            return
        _keep_below(folder, MOST_BYTES)
    except OSError:
        return  # a read-only home, or another process that clears up at the same moment: compile every time
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def _others_can_write(folder: Path) -> bool:
    """Whether anybody but this user and the administrator can put files there; what lies there is executed."""
    if os.name == "nt":
        return False
    state = folder.stat()
    return bool(state.st_mode & 0o022) or state.st_uid not in (0, os.getuid())


def _keep_below(folder: Path, most_bytes: int) -> None:
    """Removes the entries that were not used for longest. JAX's own limit needs a package that we do without."""
    entries = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir() if path.is_file())
    excess = sum(size for _, size, _ in entries) - most_bytes
    for _, size, path in entries:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size


def note_program(program: Hashable) -> None:
    """Notes that a program is about to be compiled or used, and keeps a process that needs ever new ones from growing.

    Every so many new ones it gives back what compiling them left in the allocator; after many more it forgets them all.
    """
    if program in _programs:
        return
    _programs.add(program)
    if len(_programs) > MOST_PROGRAMS:
        _programs.clear()
        jax.clear_caches()
    if len(_programs) % PROGRAMS_BETWEEN_TRIMS == 0:
        gc.collect()
        _trim()


def _trim() -> None:
    """Gives memory that is free within the process back to the system, where its C library can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def leave_out_slow_engines() -> None:
    """On a GPU, keeps some of cuDNN's engines out of XLA's search for the fastest kernel of a convolution.

    XLA runs every kernel that cuDNN offers. For the convolutions of ten wide ResNets these engines take hundreds to
    thousands of times as long as the best (XLA's log of the search, `--xla_gpu_dump_autotune_logs_to=FILE`), which is a
    fifth of the time to compile their steps (`python benchmarks/compiler_options.py --only WRN`). It holds for the
    whole process. A file of rules that the user names is left alone; an empty name switches ours off.
    """
    if Backend.current().is_gpu:
        os.environ.setdefault(ENGINE_RULES, str(SLOW_ENGINES))

"""An ensemble as StableHLO: one file for CPUs and CUDA GPUs and for batches of any size, which JAX alone runs.

exported = jax.export.deserialize(open("model.stablehlo", "rb").read())
exported.call({"rows": x})["probabilities"]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, export

from nu_ensembles.errors import InputError
from nu_ensembles.export.answer import answers
from nu_ensembles.export.inputs import Input, inputs_of
from nu_ensembles.export.preprocessing import traced_rows

PLATFORMS = ("cpu", "cuda")

# Nothing of this package: a fresh process that knows JAX only.
_READER = """
import sys, jax, numpy as np
if sys.argv[4] == "64": jax.config.update("jax_enable_x64", True)
exported = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
inputs = np.load(sys.argv[2])
given = {name: inputs[f"arr_{at}"] for at, name in enumerate(sorted(exported.in_tree.unflatten(
    list(range(len(exported.in_avals))))[0][0]))}
np.savez(sys.argv[3], **{name: np.asarray(value) for name, value in exported.call(given).items()})
"""


def stablehlo_bytes(ensemble: Any, outputs: Sequence[str]) -> bytes:
    """The serialised program of a dict of inputs that gives a dict of outputs."""
    inputs = inputs_of(ensemble, "stablehlo")
    (rows,) = export.symbolic_shape("rows")
    given = {each.name: _shape(each, rows) for each in inputs}

    def program(inputs: dict[str, Array]) -> dict[str, Array]:
        with jax.enable_x64(True):
            x = traced_rows(ensemble, inputs)
        return answers(ensemble, ensemble.params, ensemble.model_state, x, outputs)

    # Without it a GPU multiplies float32 in fewer bits, and answers differ in the third digit.
    with jax.default_matmul_precision("float32"), jax.enable_x64(needs_64_bits(inputs)):
        exported = export.export(jax.jit(program), platforms=PLATFORMS)(given)
    return bytes(exported.serialize())


def _shape(each: Input, rows: Any) -> jax.ShapeDtypeStruct:
    with jax.enable_x64(True):
        return jax.ShapeDtypeStruct((rows, *each.shape), jnp.dtype(each.dtype))


def needs_64_bits(inputs: Sequence[Input]) -> bool:
    """Whether JAX must be told to keep float64 before it can be given such inputs."""
    return any(each.dtype == "float64" for each in inputs)


def run_stablehlo(program: bytes, inputs: dict[str, np.ndarray], bits: int) -> dict[str, np.ndarray]:
    """The outputs of a serialised program, in a fresh process that has JAX and nothing of this package."""
    with tempfile.TemporaryDirectory() as folder:
        file, given, found = (str(Path(folder, name)) for name in ("program", "inputs.npz", "outputs.npz"))
        Path(file).write_bytes(program)
        # In the order of the names, as JAX flattens a dict; names of columns may be no names of files.
        np.savez(given, *(inputs[name] for name in sorted(inputs)))
        done = subprocess.run(
            [sys.executable, "-c", _READER, file, given, found, str(bits)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise InputError(f"The exported program does not run in a fresh process: {last}; nothing was written.")
        with np.load(found) as loaded:
            return {name: loaded[name] for name in loaded.files}

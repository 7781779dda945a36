"""Milliseconds that ten members take for 1 and 1,000 rows: `Ensemble.predict_proba`, `compile()` and onnxruntime.

    python benchmarks/single_rows.py [--only MLP] [--rows 1,1000] [--asynchronous] [--out FILE]

Processor time on one thread each, measured by turns, so that others on the machine change ratios little; the fastest of
several rounds. The file that onnxruntime runs is what `ensemble.export` writes. JAX dispatches synchronously, as
docs/deploy.md advises a process that only answers to do, unless `--asynchronous` says otherwise.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime

import nu_ensembles as nu
from nu_ensembles.export.onnx_file import onnx_bytes
from nu_ensembles.problem import Standardisation
from recording import Recording

NETWORKS: dict[str, tuple[str, tuple[int, ...]]] = {
    "MLP 64-64, digits": ("mlp", (64,)),
    "LeNet, 28×28×1": ("lenet", (28, 28, 1)),
    "WRN-10-1, 32×32×3": ("wrn-10-1", (32, 32, 3)),
}
ROUNDS, SECONDS_A_ROUND = 3, 0.05


def untrained(name: str, row_shape: tuple[int, ...]) -> nu.Ensemble:
    """Ten members as they begin: what they have learnt does not matter for the time that they take."""
    model = nu.models.build(name, 10)
    keys = jax.random.split(jax.random.key(0), 10)
    params = jax.vmap(lambda key: model.init(key, jnp.zeros((1, *row_shape))))(keys)
    scaling = Standardisation(np.zeros(row_shape), np.ones(row_shape)) if len(row_shape) == 1 else None
    return nu.Ensemble(model, jax.tree.map(np.asarray, params), {}, np.arange(10), row_shape, standardisation=scaling)


def milliseconds(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Processor time of a call of each, the least of some rounds."""
    calls = {}
    for name, way in ways.items():
        way()
        begun = time.process_time()
        way()
        calls[name] = max(1, int(SECONDS_A_ROUND / max(time.process_time() - begun, 1e-6)))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begun = time.process_time()
            for _ in range(calls[name]):
                way()
            best[name] = min(best[name], 1e3 * (time.process_time() - begun) / calls[name])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--rows", default="1,1000")
    parser.add_argument("--asynchronous", action="store_true", help="dispatch as JAX does by default")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # Before anything is computed, or it has no effect.
    jax.config.update("jax_cpu_enable_async_dispatch", options.asynchronous)
    key = ("network", "rows", "dispatch")
    recording = Recording("single-rows", "python benchmarks/single_rows.py", key, options.out)
    for label, (name, row_shape) in NETWORKS.items():
        if options.only.lower() not in label.lower():
            continue
        ensemble = untrained(name, row_shape)
        compiled = ensemble.compile()
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = session_options.inter_op_num_threads = 1
        model = onnx_bytes(ensemble, ("probabilities",), {})
        session = onnxruntime.InferenceSession(model, session_options, providers=["CPUExecutionProvider"])
        for n_rows in map(int, options.rows.split(",")):
            x = np.random.default_rng(0).normal(size=(n_rows, *row_shape)).astype(np.float32)
            ways: dict[str, Callable[[], Any]] = {
                "package_ms": lambda x=x, ensemble=ensemble: ensemble.predict_proba(x),
                "compiled_ms": lambda x=x, compiled=compiled: compiled.predict_proba(x),
                "onnxruntime_ms": lambda x=x, session=session: session.run(["probabilities"], {"rows": x})[0],
            }
            difference = float(np.abs(ways["compiled_ms"]() - ways["onnxruntime_ms"]()).max())
            found = milliseconds(ways)
            dispatch = "asynchronous" if options.asynchronous else "synchronous"
            row = {"network": label, "rows": n_rows, "members": 10, "dispatch": dispatch}
            row |= found | {"difference": difference}
            recording.add(row | {"onnxruntime": onnxruntime.__version__})
            shown = ", ".join(f"{way.removesuffix('_ms')} {ms:.3f} ms" for way, ms in found.items())
            print(f"{label}, {n_rows} rows: {shown}, largest difference {difference:.1e}", flush=True)


if __name__ == "__main__":
    main()

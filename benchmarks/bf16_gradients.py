"""How far bfloat16 moves a gradient, against how far the next batch moves it.

    python benchmarks/bf16_gradients.py --data-dir FOLDER [--only lenet] [--epochs 30] [--quick] [--out FILE]

One member of a published network is trained in float32 on CIFAR-10, 1,000 labels, with published hyper-parameters but
for the epochs. With the parameters that it reached, gradients of the cross-entropy of ten batches of 32 images are
taken in both dtypes, under the same masks of dropout. Recorded is how long differences are relative to the float32
gradient: for every kernel of the network the median over batches, of these the median and the extreme. On two cores the
ResNet takes half a minute an epoch.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import nu_ensembles as nu
from bf16_vs_float32 import DTYPES, NETWORKS, images
from nu_ensembles.engine.program import network_inputs
from nu_ensembles.methods.losses import cross_entropy
from recording import Recording

BATCH, N_BATCHES = 32, 10


def trained(name: str, epochs: int, data: dict[str, np.ndarray]) -> Any:
    """A member's variables after training in float32."""
    rate, _, options = NETWORKS[name]
    model = nu.models.build(name, 10, dtype="float32", **options)
    how = {"method": nu.methods.Standard(), "n_members": 1, "epochs": epochs, "seed": 0}
    ensemble = nu.fit(model, data["x"], data["y"], learning_rate=rate, augment="flip_crop", **how)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), ensemble.params)


def gradients(name: str, dtype: str, variables: Any, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Kernel -> its gradients, a row for every batch."""
    model = nu.models.build(name, 10, dtype=dtype, **NETWORKS[name][2])

    def loss(variables: Any, x: Array, y: Array, key: Array) -> Array:
        return cross_entropy(model.apply(variables, network_inputs(x, "float32"), key=key, train=True), y)

    gradient = jax.jit(jax.grad(loss))
    found: dict[str, list[np.ndarray]] = {}
    for batch in range(N_BATCHES):
        rows = slice(batch * BATCH, (batch + 1) * BATCH)
        of_batch = gradient(variables, data["x"][rows], data["y"][rows].astype(np.int32), jax.random.key(batch))
        for path, leaf in jax.tree.leaves_with_path(of_batch):
            if leaf.ndim > 1:
                found.setdefault(jax.tree_util.keystr(path), []).append(np.asarray(leaf, np.float64).ravel())
    return {kernel: np.stack(of_batches) for kernel, of_batches in found.items()}


def moved_by(differences: np.ndarray, gradients: np.ndarray) -> float:
    """The relative length of differences, the median over batches."""
    return float(np.median(np.linalg.norm(differences, axis=-1) / np.linalg.norm(gradients, axis=-1)))


def compared(name: str, epochs: int, data: dict[str, np.ndarray]) -> dict[str, Any]:
    variables = trained(name, epochs, data)
    full, half = (gradients(name, dtype, variables, data) for dtype in DTYPES)
    by_bfloat16 = [moved_by(half[kernel] - full[kernel], full[kernel]) for kernel in full]
    by_next_batch = [moved_by(np.roll(full[kernel], 1, axis=0) - full[kernel], full[kernel]) for kernel in full]
    return {
        "kernels": len(full),
        "bfloat16": float(np.median(by_bfloat16)),
        "bfloat16_largest": max(by_bfloat16),
        "next_batch": float(np.median(by_next_batch)),
        "next_batch_smallest": min(by_next_batch),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", choices=NETWORKS, help="one network")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="one epoch")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    epochs = 1 if options.quick else options.epochs
    data = images(options.data_dir)
    command = "python benchmarks/bf16_gradients.py"
    recording = Recording("bf16-gradients", command, ("network", "epochs"), options.out, options.quick)
    for name in [options.only] if options.only else NETWORKS:
        found = compared(name, epochs, data)
        recording.add({"network": name, "epochs": epochs} | found)
        print(
            f"{name}, {epochs} epochs: bfloat16 moves a kernel's gradient by {found['bfloat16']:.2%} (at most "
            f"{found['bfloat16_largest']:.2%}), the next batch by {found['next_batch']:.0%} (at least "
            f"{found['next_batch_smallest']:.0%})",
            flush=True,
        )


if __name__ == "__main__":
    main()

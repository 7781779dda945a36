"""Seconds that ten members take to predict images: all in one program, one by one, and one on each core.

    python benchmarks/prediction.py [--images 2048] [--only WRN] [--out FILE]

On a CPU convolutional members predict one on each core, few images at a time; see `nu_ensembles/engine/predict.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nu_ensembles as nu
from nu_ensembles.engine.predict import predict_lanes
from recording import Recording

NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "LeNet, float32": ("lenet", {"dtype": "float32"}),
    "WRN-16-1, float32": ("wide_resnet", {"depth": 16, "widen": 1, "dtype": "float32"}),
}
MANY = 1024


def seconds(predict: Callable[[], object], rounds: int = 2) -> float:
    """The fastest of some rounds; compilation comes before."""
    predict()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        predict()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    key = ("network", "way", "members", "images")
    recording = Recording("prediction", "python benchmarks/prediction.py", key, options.out)
    x = np.random.default_rng(0).integers(0, 256, (options.images, 32, 32, 3), np.uint8)
    keys = jax.random.split(jax.random.key(0), options.members)
    for label, (name, arguments) in NETWORKS.items():
        if options.only.lower() not in label.lower():
            continue
        model = nu.models.build(name, 10, **arguments)
        params = jax.vmap(lambda key, model=model: model.init(key, jnp.zeros((1, 32, 32, 3))))(keys)

        def predict(params: Any = params, model: nu.Model = model, **how: Any) -> None:
            for _ in predict_lanes(model, "float32", params, {}, x, **how):
                pass

        def one_by_one(params: Any = params, predict: Callable[..., None] = predict) -> None:
            for member in range(options.members):
                predict(jax.tree.map(lambda leaf, at=member: leaf[at : at + 1], params), rows_at_once=MANY)

        ways: dict[str, Callable[[], None]] = {
            "all in one program, 1,024 images at a time": lambda predict=predict: predict(rows_at_once=MANY),
            "one by one, 1,024 images at a time": one_by_one,
            "one on each core, 1,024 images at a time": lambda p=predict: p(lanes_at_once=1, rows_at_once=MANY),
            "one on each core, 128 images at a time (ours)": lambda predict=predict: predict(lanes_at_once=1),
        }
        for way, run in ways.items():
            row = {"network": label, "way": way, "members": options.members, "images": options.images}
            recording.add(row | {"seconds": seconds(run)})
            print(f"{label:20s} {way:48s} {recording.rows[-1]['seconds']:6.2f} s", flush=True)


if __name__ == "__main__":
    main()

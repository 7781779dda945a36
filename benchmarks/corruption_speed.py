"""Images a second of every corruption, and how long 10,000 images in all 75 ways take.

    python benchmarks/corruption_speed.py --images 2000 --all 10000 --processes 2 --out results/corruption-speed.json

Random 32×32 colour images with CIFAR-like smoothness. Each of the 19 types is timed at all five severities in one
process; then the 15 of the benchmark run as users run them, in several processes, start included. Target: 10,000
images in 10 minutes on two cores. A smaller `--all` is scaled to 10,000 images.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from scipy import ndimage

from nu_ensembles.corruptions import COMMON_NAMES, NAMES, corrupt, corrupt_all
from nu_ensembles.training.run_folder import environment


def smooth_images(n_images: int) -> np.ndarray:
    """uint8 `[N, 32, 32, 3]` whose neighbouring pixels are alike, as in photographs."""
    noise = np.random.default_rng(0).normal(size=(n_images, 32, 32, 3))
    smooth = ndimage.gaussian_filter(noise, (0, 2, 2, 0))
    return np.clip(128 + 60 * smooth / smooth.std(), 0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="images for the rates of each type")
    parser.add_argument("--all", type=int, default=10_000, help="images in all 75 ways")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    images = smooth_images(options.images)
    rates = {}
    print(f"{'type':18s} images/s in one process")
    for name in NAMES:
        corrupt(images[:64], name, 1)  # textures and matrices are made once
        start = time.perf_counter()
        for severity in range(1, 6):
            corrupt(images, name, severity)
        rates[name] = 5 * len(images) / (time.perf_counter() - start)
        print(f"{name:18s} {rates[name]:8.0f}", flush=True)
    one_process = sum(50_000 / rates[name] for name in COMMON_NAMES)
    images = smooth_images(options.all)
    start = time.perf_counter()
    for _ in corrupt_all(images, n_processes=options.processes, verbose=0):
        pass
    measured = time.perf_counter() - start
    several = measured / len(images) * 10_000
    print(f"{len(images):,} images × 75 in {options.processes} processes: {measured:.0f} s")
    print(f"10,000 images × 75: {one_process:.0f} s in one process, {several:.0f} s in {options.processes}")
    if options.out:
        command = f"--images {options.images} --all {options.all} --processes {options.processes}"
        result = {
            "command": f"python benchmarks/corruption_speed.py {command}",
            "environment": environment(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0],
            "images": options.images,
            "images_per_second": rates,
            "all_75_one_process_s": one_process,
            "all_75_images": options.all,
            "all_75_measured_s": measured,
            "all_75_s": several,
            "processes": options.processes,
        }
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

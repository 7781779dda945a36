"""Where the published statistics of the random corruptions fall among those of our own seeds.

    NU_ENSEMBLES_DATA=… python benchmarks/corruption_seeds.py --seeds 30 --out results/corruption-seeds.json

For every random type and severity with published statistics: the mean absolute difference over the first 512 CIFAR-10
test images, for each of our seeds and for the two published sets of draws. If ours are draws of the same
distribution, the published ones lie among them like two more seeds; z tells how many standard deviations off the mean.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import stats

from nu_ensembles.corruptions import NAMES, corrupt
from nu_ensembles.corruptions.suite import CORRUPTIONS
from nu_ensembles.datasets import load_cifar10
from nu_ensembles.training.run_folder import environment

PUBLISHED = Path(__file__).parents[1] / "tests" / "golden" / "corruptions" / "published.json"
N_IMAGES = 512


def change(images: np.ndarray, name: str, severity: int, seed: int) -> float:
    """Mean absolute difference of all values."""
    return float(np.abs(corrupt(images, name, severity, seed).astype(np.int16) - images).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    images = load_cifar10(may_download=False, verbose=0).test_images[:N_IMAGES]
    published = json.loads(PUBLISHED.read_text())["stats"]
    rows = []
    for name in NAMES:
        # The published frost has other textures: it has a table of its own.
        if CORRUPTIONS[name].draw is None or name == "frost":
            continue
        for severity, found in published.get(name, {}).items():
            ours = np.array([change(images, name, int(severity), seed) for seed in range(options.seeds)])
            # The spread of one more draw about the mean of these.
            spread = float(ours.std(ddof=1) * np.sqrt(1 + 1 / len(ours)))
            z = [(each - ours.mean()) / spread for each in found["mean_abs_diff"]]
            row = {"name": name, "severity": int(severity), "published": found["mean_abs_diff"], "ours": ours.tolist()}
            rows.append(row | {"z": z})
            print(
                f"{name:18s} {severity} {ours.mean():8.4f} ± {ours.std(ddof=1):.4f}  z {z[0]:+.2f} {z[1]:+.2f}",
                flush=True,
            )
    every = np.array([z for row in rows for z in row["z"]])
    test = stats.kstest(every, stats.t(options.seeds - 1).cdf)
    summary = {
        "n": len(every),
        "mean_z": float(every.mean()),
        "sd_z": float(every.std(ddof=1)),
        "largest_z": float(np.abs(every).max()),
        "beyond_2": int((np.abs(every) > 2).sum()),
        "kolmogorov_smirnov_p": float(test.pvalue),
    }
    print(summary)
    if options.out:
        about = {
            "command": f"python benchmarks/corruption_seeds.py --seeds {options.seeds}",
            "environment": environment(),
            "images": N_IMAGES,
            "seeds": options.seeds,
        }
        options.out.write_text(json.dumps(about | {"summary": summary, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

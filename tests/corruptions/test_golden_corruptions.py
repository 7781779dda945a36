"""Level by level, the corruptions are those that the published code made from the same random draws.

The arrays are CIFAR-10 test images 3 and 13 after the published code (32 images of each were compared once; these two
stay here), and image i of corruption t at severity s drew from the legacy generator with seed 100000 t + 1000 s + i.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.corruptions import NAMES, corrupt
from nu_ensembles.corruptions.suite import CORRUPTIONS

GOLDEN = Path(__file__).parents[1] / "golden" / "corruptions"
PUBLISHED = json.loads((GOLDEN / "published.json").read_text())
CORRUPTED = np.load(GOLDEN / "corrupted.npz")
CELLS = [tuple(key.split("__s")) for key in CORRUPTED.files]


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    return np.load(GOLDEN / "clean.npz")["images"]


@pytest.mark.parametrize(("name", "severity"), CELLS)
def test_the_published_draws_give_the_published_levels(name: str, severity: str, clean: np.ndarray) -> None:
    rows = PUBLISHED["images"]
    kind = NAMES.index(name) + 1
    sources = [np.random.RandomState(100_000 * kind + 1000 * int(severity) + row) for row in rows]
    ours = corrupt(clean[rows], name, int(severity), sources=sources)
    np.testing.assert_array_equal(ours, CORRUPTED[f"{name}__s{severity}"])


@pytest.mark.parametrize("severity", sorted(map(int, PUBLISHED["stats"]["frost"])))
def test_procedural_frost_changes_images_as_much_as_the_published_photographs(severity: int, clean: np.ndarray) -> None:
    published = np.mean(PUBLISHED["stats"]["frost"][str(severity)]["mean_abs_diff"])
    changes = [
        np.abs(corrupt(clean, "frost", severity, seed).astype(int) - clean.astype(int)).mean() for seed in range(12)
    ]
    assert np.mean(changes) == pytest.approx(published, rel=0.15)


@pytest.fixture(scope="module")
def first_512_images() -> np.ndarray:
    from nu_ensembles.datasets import load_cifar10

    return load_cifar10(may_download=False, verbose=0).test_images[:512]


needs_real_images = pytest.mark.skipif(
    "NU_ENSEMBLES_DATA" not in os.environ, reason="the real images are not in the repository"
)


def mean_change(corrupted: np.ndarray, images: np.ndarray) -> float:
    return float(np.abs(corrupted.astype(int) - images.astype(int)).mean())


@pytest.mark.slow
@needs_real_images
@pytest.mark.parametrize("name", sorted(set(PUBLISHED["stats"]) - {"frost"}))
def test_the_published_draws_give_the_published_statistics_over_512_images(
    name: str, first_512_images: np.ndarray
) -> None:
    for severity, stats in PUBLISHED["stats"][name].items():
        for offset, published in zip((0, 50_000_000), stats["mean_abs_diff"], strict=True):
            start = offset + 100_000 * (NAMES.index(name) + 1) + 1000 * int(severity)
            sources = [np.random.RandomState(start + row) for row in range(512)]
            ours = corrupt(first_512_images, name, int(severity), sources=sources)
            # One level in one of 1.6 million values is 6e-7.
            assert mean_change(ours, first_512_images) == pytest.approx(published, abs=1e-8)
            if not offset:
                assert ours.mean(axis=(0, 1, 2)) == pytest.approx(stats["channel_mean"], abs=1e-8)
                assert ours.std(axis=(0, 1, 2)) == pytest.approx(stats["channel_std"], abs=1e-8)


@pytest.mark.slow
@needs_real_images
@pytest.mark.parametrize("name", sorted(n for n in PUBLISHED["stats"] if CORRUPTIONS[n].draw is not None))
def test_our_own_seeds_give_the_published_statistics_within_the_spread_of_seeds(
    name: str, first_512_images: np.ndarray
) -> None:
    # The spread is measured: two published seeds alone can lie close together by chance.
    for severity, stats in PUBLISHED["stats"][name].items():
        changes = [
            mean_change(corrupt(first_512_images, name, int(severity), seed), first_512_images) for seed in range(16)
        ]
        error = np.std(changes, ddof=1) * np.sqrt(1 / 16 + 1 / 2)
        assert abs(np.mean(changes) - np.mean(stats["mean_abs_diff"])) < 4 * error

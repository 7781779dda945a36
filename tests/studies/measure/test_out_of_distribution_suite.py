"""The suite scores the clean images, every corruption of them, and foreign images."""

from __future__ import annotations

import numpy as np

from nu_ensembles_studies.measure.out_of_distribution import out_of_distribution_suite


def by_brightness(images: np.ndarray) -> np.ndarray:
    """Two members that call an image bright by the mean of its first and of its second half: `[2, N, 2]`."""
    halves = np.stack([images[:, :4], images[:, 4:]]).mean(axis=(2, 3, 4)) / 255
    return np.stack([1 - halves, halves], axis=-1)


def test_a_row_for_clean_images_each_corruption_and_each_other_set() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(10) % 2
    images = (200 * labels[:, None, None, None] + rng.integers(0, 50, (10, 8, 8, 3))).astype(np.uint8)
    foreign = np.full((5, 8, 8, 3), 128, np.uint8)
    rows = out_of_distribution_suite(
        by_brightness,
        images,
        labels,
        others={"grey": foreign},
        names=["contrast"],
        severities=[1, 5],
        verbose=0,
    )
    assert [(row["data"], row["severity"]) for row in rows] == [
        ("clean", 0),
        ("contrast", 1),
        ("contrast", 5),
        ("grey", 0),
    ]
    assert rows[0]["metrics"]["accuracy"] == 1.0
    assert rows[0]["auroc"] is None
    assert rows[1]["auroc"].keys() == {"confidence", "entropy", "epistemic", "disagreement"}
    assert rows[3]["metrics"] is None
    assert rows[3]["auroc"]["confidence"] == 1.0

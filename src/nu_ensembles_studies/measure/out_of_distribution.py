"""An ensemble on data that it was not trained for: a corrupted test set, and other data sets.

A row for each corruption and severity holds all metrics (the labels are still true) and how well the ensemble tells
corrupted images from clean ones; a row for another data set holds the latter only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.corruptions import COMMON_NAMES, corrupt_all
from nu_ensembles.corruptions.suite import check_images
from nu_ensembles.metrics.evaluation import evaluate
from nu_ensembles.metrics.out_of_distribution import ood_scores


def out_of_distribution_suite(
    predict_members: Callable[[np.ndarray], ArrayLike],
    images: ArrayLike,
    labels: ArrayLike,
    *,
    others: Mapping[str, ArrayLike] | None = None,
    names: Sequence[str] = COMMON_NAMES,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    n_processes: int = 1,
    verbose: int = 1,
) -> list[dict[str, Any]]:
    """Scores an ensemble on its test images, on corruptions of them, and on images from elsewhere.

        rows = out_of_distribution_suite(
            lambda images: ensemble.predict_members(images / 255), test_images, test_labels,
            others={"cifar100": load_cifar100().test_images},
        )

    Args:
      predict_members: uint8 images `[N, H, W, C]` -> probabilities `[K, N, classes]`.
      images: test images, uint8 `[N, H, W, C]`.
      labels: their classes `[N]`.
      others: images of other data sets by name; their classes do not matter.
      names: corruptions; the 15 of the benchmark by default.
      severities: severities of each.
      seed: of the corruptions.
      n_processes: processes that corrupt while this one predicts.
      verbose: 0 for no progress bar.

    Returns:
      Rows with `data` (`clean`, a corruption, or a name among `others`), `severity` (0 unless corrupted), `metrics`
      (`metrics.evaluate`, or None without labels) and `auroc` (`metrics.ood_scores`, or None for the clean images).
    """
    images = check_images(images)
    clean = np.asarray(predict_members(images))
    rows: list[dict[str, Any]] = [{"data": "clean", "severity": 0, "metrics": evaluate(clean, labels), "auroc": None}]
    for name, severity, corrupted in corrupt_all(
        images, names, severities, seed, n_processes=n_processes, verbose=verbose
    ):
        members = np.asarray(predict_members(corrupted))
        scores = {"metrics": evaluate(members, labels), "auroc": ood_scores(clean, members)}
        rows.append({"data": name, "severity": severity, **scores})
    for name, foreign in (others or {}).items():
        members = np.asarray(predict_members(check_images(foreign)))
        rows.append({"data": name, "severity": 0, "metrics": None, "auroc": ood_scores(clean, members)})
    return rows

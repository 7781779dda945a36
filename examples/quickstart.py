"""A classifier from 50 labelled and 800 unlabelled digits, and how far its probabilities can be trusted."""

import nu_ensembles as nu

X, y = nu.datasets.load_digits()
rows = nu.datasets.split(len(X), {"labelled": 50, "unlabelled": 800, "test": None}, seed=0, stratify=y)

classifier = nu.NuEnsembleClassifier(n_members=4, beta=0.001, max_iter=100, learning_rate=0.003, random_state=0)
classifier.fit(X[rows["labelled"]], y[rows["labelled"]], X_unlabeled=X[rows["unlabelled"]])

probabilities = classifier.predict_proba(X[rows["test"]])
print(f"accuracy {nu.metrics.accuracy(probabilities, y[rows['test']]):.3f}")
print(f"ECE      {nu.metrics.ece(probabilities, y[rows['test']]):.3f}")

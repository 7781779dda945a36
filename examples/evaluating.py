"""A single network and an ensemble, compared with bootstrap intervals, and calibrated on rows of their own."""

import nu_ensembles as nu

X, y = nu.datasets.load_digits()
X = X / 16
rows = nu.datasets.split(len(X), {"labelled": 100, "validation": 200, "test": None}, seed=0, stratify=y)
train, validation, test = rows["labelled"], rows["validation"], rows["test"]

for method in (nu.methods.Single(), nu.methods.Standard()):
    ensemble = nu.fit("mlp", X[train], y[train], method=method, n_members=4, epochs=40, seed=0)
    members = ensemble.predict_members(X[test])  # [K, N, C]
    scores = nu.metrics.evaluate(members, y[test], intervals=0.95, n_resamples=200)
    for name in ("accuracy", "nll", "ece"):
        print(
            f"{method.name:9} {name:9} {scores[name]:.3f} [{scores[name + '_low']:.3f}, {scores[name + '_high']:.3f}]"
        )

    scaling = nu.metrics.TemperatureScaling().fit(ensemble.predict_members(X[validation]), y[validation])
    calibrated = nu.metrics.ece(scaling.transform(members), y[test])
    print(f"{method.name:9} ECE {calibrated:.3f} at temperature {scaling.temperature_:.2f}")

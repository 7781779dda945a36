"""A network of your own, in Flax Linen. It is written for one member; the engine adds the axis of members."""

import flax.linen as nn
import jax

import nu_ensembles as nu


class Net(nn.Module):
    """`[B, 8, 8, 1] -> [B, 10]`."""

    n_classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        h = nn.relu(nn.Conv(8, (3, 3), strides=2)(x))
        h = nn.Dropout(0.1, deterministic=not train)(h.reshape(len(h), -1))
        return nn.Dense(self.n_classes)(h)


X, y = nu.datasets.load_digits()
images = X.reshape(-1, 8, 8, 1) / 16
rows = nu.datasets.split(len(X), {"labelled": 100, "unlabelled": 400, "test": None}, seed=0, stratify=y)
labelled, unlabelled, test = rows["labelled"], rows["unlabelled"], rows["test"]

ensemble = nu.fit(
    nu.models.from_linen(Net(n_classes=10)),
    images[labelled],
    y[labelled],
    images[unlabelled],
    method=nu.methods.Nu(beta=0.001),
    n_members=4,
    epochs=30,
    learning_rate=0.003,
    seed=0,
)
print(f"accuracy {nu.metrics.accuracy(ensemble.predict_proba(images[test]), y[test]):.3f}")

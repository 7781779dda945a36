"""Does DICE converge, and do its members share less?

    python benchmarks/dice_convergence.py                                        # digits, 50 labels, MLP 64-64
    python benchmarks/dice_convergence.py --cifar10 FOLDER                       # CIFAR-10, 1,000 labels, LeNet

Ten members, five seeds (on digits each another split), the same initialisations for every alpha. alpha = 0 is the
standard ensemble; 1e-9 is the same with discriminators that only watch, on the batches that DICE's members share.
Redundancy is measured twice: by the discriminators that were trained against the networks, on the training rows, and,
independently of them, on test rows: the mutual information of two members' features given the class, in nats, if the
deviations from the class means were Gaussian, in each member's first eight principal directions. The last row leaves
out what keeps the game bounded. Both sections of the file are kept when the other one is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import nu_ensembles as nu
from nu_ensembles.engine.assembly import Settings, member_lanes, on_device
from nu_ensembles.engine.fast.compilation import use_persistent_cache
from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Batch, Dice, dice, method
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key
from nu_ensembles.training.run_folder import environment

DEFAULT = Dice().alpha
ALPHAS = (0.0, 1e-9, DEFAULT, 10 * DEFAULT)
N_DIRECTIONS = 8
N_TRACE = 20
SHOWN = ("final_loss", "train_accuracy", "member_accuracy", "accuracy", "nll", "disagreement", "redundancy")


@method("alpha", "warm_up", "discriminator_learning_rate", "noise")
class Unguarded(Dice):
    """DICE without warm-up, noise, bound, spectral normalisation, or the limit of an estimate at zero."""

    warm_up: float = 0
    noise: float = 0.0
    bound: float = 1e6

    def loss(self, forward: Any, batch: Batch) -> Array:
        batch = batch.on_the_same_rows()
        assert batch.key is not None
        logits, features = forward.with_features(batch.x)
        z, labels = dice.blurred(features, batch.key, 0.0), batch.y[0]
        judged = dice.log_ratios(jax.lax.stop_gradient(batch.auxiliary), z, labels, self.bound)
        learned = dice.log_ratios(batch.auxiliary, jax.lax.stop_gradient(z), labels, self.bound)
        judgement = jnp.sum(dice.over_others(dice.discriminator_losses(*learned)))
        fit = jnp.sum(cross_entropy(logits, batch.y, batch.weight))
        penalty = self.alpha * jnp.sum(dice.over_others(dice.estimates(*judged)))
        return fit + penalty + (judgement - jax.lax.stop_gradient(judgement))


class Setting(NamedTuple):
    """Labelled and test rows, x as the network takes them."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def digits(seed: int) -> Setting:
    pixels, labels = nu.datasets.load_digits()
    rows = nu.datasets.split(len(pixels), {"labelled": 50, "test": None}, seed, stratify=labels)
    labelled, test = rows["labelled"], rows["test"]
    return Setting(pixels[labelled] / 16, labels[labelled], pixels[test] / 16, labels[test])


def cifar10(folder: Path, n_test: int) -> Setting:
    images = nu.datasets.load_cifar10(folder, may_download=False)
    rows = nu.datasets.published_split(len(images.train_images), n_train=1000)["train"]
    test = images.test_images[:n_test], images.test_labels[:n_test]
    return Setting(images.train_images[rows], images.train_labels[rows], *test)


def gaussian_redundancy(features: np.ndarray, labels: np.ndarray) -> float:
    """Mean over pairs of members of I(Z_k; Z_j | Y) in nats, as if Gaussian: -1/2 sum log(1 - rho²) of the canonical
    correlations; features `[K, N, F]`.
    """
    directions = []
    for z in features.astype(np.float64):
        within = z.copy()
        for label in np.unique(labels):
            within[labels == label] -= within[labels == label].mean(axis=0)
        variances, axes = np.linalg.eigh(within.T @ within)
        directions.append(within @ axes[:, -N_DIRECTIONS:] / np.sqrt(variances[-N_DIRECTIONS:]))
    pairs = [(a, b) for i, a in enumerate(directions) for b in directions[:i]]
    correlations = [np.linalg.svd(a.T @ b, compute_uv=False) for a, b in pairs]
    return float(np.mean([-0.5 * np.log1p(-(np.minimum(rho, 1 - 1e-9) ** 2)).sum() for rho in correlations]))


def features_of(model: Model, params: Any, x: np.ndarray) -> np.ndarray:
    """`[K, N, F]`, normalised per point as the discriminators see them, without noise."""
    features = model.features
    assert features is not None
    rows = [jnp.asarray(part, jnp.float32) / (255 if x.dtype == np.uint8 else 1) for part in np.array_split(x, 20)]
    one_member = jax.jit(lambda params, x: features(params, x, key=None, train=False))
    members = [jax.tree.map(lambda leaf, k=k: leaf[k], params) for k in range(len(jax.tree.leaves(params)[0]))]
    found = jnp.stack([jnp.concatenate([one_member(member, part) for part in rows]) for member in members])
    return np.asarray(dice.blurred(found, jax.random.split(jax.random.key(0), len(members)), 0.0))


def judged(run: Run, method: Dice, setting: Setting) -> dict[str, float]:
    """What the discriminators say of the training rows in the end."""
    z = jnp.asarray(features_of(run.program.model, run.state.params, setting.x))
    keys = jax.random.split(jax.random.key(1), len(z))
    z = z + method.noise * jax.vmap(lambda key, z: jax.random.normal(key, z.shape))(keys, z)
    discriminators = dice.with_bounded_slopes(run.state.auxiliary)
    ratios = dice.log_ratios(discriminators, z, jnp.asarray(setting.y), method.bound)
    return {
        "own_estimate": float(dice.over_others(dice.redundancies(*ratios)).mean()),
        "discriminator_loss": float(dice.over_others(dice.discriminator_losses(*ratios)).mean()),
    }


def measured(setting: Setting, model: Model, method: Any, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training, and what became of it."""
    settings = Settings(learning_rate=options.learning_rate)
    program = settings.program(model, len(setting.x), 0)
    lanes = member_lanes(random_key(seed), range(options.members), len(setting.x), method, settings)
    data = on_device(setting.x, setting.y.astype(np.int32), np.ones(len(setting.x), np.float32), None, None)
    plan = choose_plan("vectorised", method, program, data, options.members)
    run = Run(program, lanes, data, on_host=plan.on_host)
    trace: list[float] = []
    start = time.perf_counter()
    for stop in np.linspace(0, options.steps, N_TRACE + 1).astype(int)[1:]:
        chunks: list[float] = []
        # A joint loss is the sum over the members; each lane's own under the standard ensemble.
        share = options.members if isinstance(method, Dice) else 1
        run.advance(int(stop), lambda _, losses, chunks=chunks, share=share: chunks.append(losses.mean() / share))
        trace.append(float(np.mean(chunks)))
    seconds = time.perf_counter() - start

    def probabilities(x: np.ndarray) -> np.ndarray:
        # On a CPU a vmapped convolution is slow, also in prediction.
        parts = predict_lanes(model, "float32", *run.variables, x, lanes_at_once=1 if plan.on_host else None)
        return np.concatenate([part for _, part in parts], axis=1)

    test = probabilities(setting.x_test)
    scores = nu.metrics.evaluate(test, setting.y_test)
    members = test.argmax(axis=-1)
    distinct = [np.mean(members[i] != members[j]) for i in range(len(members)) for j in range(i)]
    return {
        "seed": seed,
        "losses": trace,
        "final_loss": trace[-1],
        "largest_loss": max(trace),
        "train_accuracy": float((probabilities(setting.x).argmax(axis=-1) == setting.y).mean()),
        "member_accuracy": float((members == setting.y_test).mean()),
        "accuracy": float(scores["accuracy"]),
        "nll": float(scores["nll"]),
        "ece": float(scores["ece"]),
        "disagreement": float(np.mean(distinct)),
        "redundancy": gaussian_redundancy(features_of(model, run.state.params, setting.x_test), setting.y_test),
        "seconds": seconds,
        **(judged(run, method, setting) if type(method) is Dice else {}),
    }


def summary(runs: list[dict[str, Any]], standard: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and mean ± standard error of the paired change against the standard ensemble."""
    finite = [all(math.isfinite(loss) for loss in run["losses"]) for run in runs]
    fitted = [run["train_accuracy"] == 1 for run in runs]
    found: dict[str, Any] = {"seeds_finite": sum(finite), "seeds_where_all_members_fit_all_labels": sum(fitted)}
    for name in (*SHOWN, "ece", "own_estimate", "discriminator_loss", "largest_loss", "seconds"):
        if name not in runs[0]:
            continue
        values = np.array([run[name] for run in runs])
        found[name] = float(values.mean())
        if name in SHOWN and runs is not standard and len(runs) > 1:
            change = values - [run[name] for run in standard]
            found[f"{name}_change"] = [float(change.mean()), float(change.std(ddof=1) / len(change) ** 0.5)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER", help="measure CIFAR-10 from this folder instead")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, help="600 on digits, 3000 on CIFAR-10")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--alphas", type=float, nargs="+", default=list(ALPHAS), help="the first is the reference")
    parser.add_argument("--test-rows", type=int, default=10_000, help="of CIFAR-10")
    parser.add_argument("--out", type=Path, default=Path("results/dice-convergence.json"))
    options = parser.parse_args()
    options.steps = options.steps or (3000 if options.cifar10 else 600)
    use_persistent_cache()
    model = nu.models.lenet(10) if options.cifar10 else nu.models.mlp(10)
    images = cifar10(options.cifar10, options.test_rows) if options.cifar10 else None
    compared = {f"{alpha:g}": Dice(alpha).effective() for alpha in options.alphas}
    compared[f"{DEFAULT:g}, unguarded"] = Unguarded()
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(options.seeds):
        setting = images or digits(seed)
        for name, way in compared.items():
            row = measured(setting, model, way, seed, options)
            runs.setdefault(name, []).append(row)
            print(f"seed {seed} alpha {name}: " + "  ".join(f"{key} {row[key]:.4g}" for key in SHOWN), flush=True)
    standard = next(iter(runs.values()))
    section = {
        "command": "python benchmarks/dice_convergence.py" + (" --cifar10 FOLDER" if options.cifar10 else ""),
        **{key: getattr(options, key) for key in ("seeds", "members", "steps", "learning_rate")},
        "method": nu.methods.hyper_parameters(Dice()),
        "environment": environment(),
        "summary": {name: summary(rows, standard) for name, rows in runs.items()},
        "runs": runs,
    }
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(stored | {"cifar10" if options.cifar10 else "digits": section}, indent=1) + "\n")
    json.dump(section["summary"], sys.stdout, indent=1)


if __name__ == "__main__":
    main()

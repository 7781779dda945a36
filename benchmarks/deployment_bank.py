"""Trainings under shifts, kept as predictions, so that rules for beta are compared without training anything again.

    python benchmarks/deployment_bank.py FOLDER --shifts development --seeds 0 1 --labels 50 100 200 --workers 2

For each (shift, seed, labels) the standard ensemble is trained until its out-of-fold NLL rises, and every other
candidate to two stops beyond where it is lowest: as fold members (five folds of three) and as members on all labels
(five), the same networks whatever the candidate. FOLDER gets one .npz each; those that exist are skipped.
`nu_ensembles_studies.shifts` draws the rows. Log probabilities are float16, which keeps those near one, too.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

CONSTANT = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
BY_LABELLED_LOSS = (1e-1, 3e-1, 1.0, 3.0)
# All in units of the labelled loss: finer where the rule chooses.
FINE = (0.03, 0.1, 0.2, 0.3, 0.6, 1.0)
CANDIDATES = "NU_BANK_CANDIDATES"
FOLDS, FOLD_MEMBERS, MEMBERS, STOPS, MAX_ITER = 5, 3, 5, 10, 500
LANES = FOLDS * FOLD_MEMBERS + MEMBERS
# Of each part at most so many rows are predicted, and so many of these kept.
MOST = {"z": (400, 150), "u": (400, 400), "source": (400, 200), "test": (500, 500)}
MIXED, MIXING = 200, 0.65  # PseudoCal's
# Stops that are kept row by row, counted from where the standard ensemble is best.
KEPT = (-1, 0, 1, 2)


def measure(folder: Path, name: str, seed: int, n_labelled: int) -> str:
    started = time.process_time()
    file = folder / f"{name}.{seed}.{n_labelled}.npz"
    if file.exists():
        return f"{file.name} is there"
    import numpy as np

    from nu_ensembles.errors import InputError

    try:
        found = Bank(name, seed, n_labelled).arrays()
    except InputError as error:
        return f"{file.name}: {error}"
    folder.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".part.npz")
    np.savez_compressed(aside, **found)
    os.replace(aside, file)
    return f"{file.name}: {time.process_time() - started:.0f} s"


class Bank:
    """One shift, and what all candidates predict on it."""

    def __init__(self, name: str, seed: int, n_labelled: int) -> None:
        import numpy as np

        from nu_ensembles.engine.settings import Settings
        from nu_ensembles.methods import Nu
        from nu_ensembles.problem import prepare, random_key
        from nu_ensembles.training import make_job, steps_in
        from nu_ensembles.tuning import SearchSettings, stratified_folds
        from nu_ensembles_studies import shifts

        shift = shifts.load(name, seed, n_labelled)
        problem = prepare(shift.x, shift.y, shift.x_unlabeled, standardize=shift.x.ndim == 2)
        settings = Settings(batch_size=32)
        n_steps = steps_in(MAX_ITER, len(problem.x), 32)
        self.stops = SearchSettings(n_stops=STOPS).stops(n_steps)
        self.job = make_job(problem, "mlp", Nu(), settings, MEMBERS, n_steps, random_key(seed))
        self.folds = stratified_folds(problem.y, FOLDS, 1, seed)
        self.y, self.n_classes = problem.y, len(problem.classes)

        def further(x: Any, y: Any, most: int) -> Any:
            return problem.further_rows(x[:most], problem.classes[y[:most]], "x")

        test, self.y_test = further(shift.x_test, shift.y_test, MOST["test"][0])
        source, self.y_source = further(shift.x_source_test, shift.y_source_test, MOST["source"][0])
        self.y_u = shift.y_unlabeled[: MOST["u"][0]]
        u = problem.x_unlabeled
        assert u is not None
        self.n_u = len(u)
        rng = np.random.default_rng([seed, 51])
        pairs = rng.integers(0, len(u), (2, MIXED))
        mixed = MIXING * u[pairs[0]].astype(np.float32) + (1 - MIXING) * u[pairs[1]].astype(np.float32)
        self.parts = {"z": problem.x, "u": u[: MOST["u"][0]], "source": source, "test": test}
        self.parts |= {"first": u[pairs[0]], "second": u[pairs[1]], "mixed": mixed.astype(u.dtype)}

    def arrays(self) -> dict[str, Any]:
        import numpy as np

        from nu_ensembles.deployment.rule import LIMITS
        from nu_ensembles.methods import Nu

        standard = self.trained([Nu(0.0)], self.stops, until_it_rises=True)
        best = int(np.argmin(standard["nll_oof"][0]))
        to = min(best + 3, standard["nll_oof"].shape[1])
        all_betas = {"all": (CONSTANT, BY_LABELLED_LOSS), "fine": ((), FINE), "rule": ((), tuple(sorted(LIMITS)))}
        betas, by_labelled_loss = all_betas[os.environ[CANDIDATES]]
        others = [Nu(beta) for beta in betas] + [Nu(beta, weighting="labelled_loss") for beta in by_labelled_loss]
        both = standard, self.trained(others, self.stops[:to])
        found = {key: np.concatenate([part[key][:, :to] for part in both]) for key in standard}
        kept = np.unique(np.clip([best + shift for shift in KEPT], 0, to - 1))
        by_row = ("oof", "fold_u", "z", "u", "source", "test", "agree", "spread", "fold_agree", "fold_spread", "votes")
        found = {key: value[:, kept] if key in by_row else value for key, value in found.items()}
        fold_of = np.zeros(len(self.y), np.int16)
        for number, fold in enumerate(self.folds):
            fold_of[fold.held_out] = number
        names = ["constant 0", *(f"constant {beta:g}" for beta in betas)]
        names += [f"labelled_loss {beta:g}" for beta in by_labelled_loss]
        labels = {"y": self.y, "y_u": self.y_u, "y_source": self.y_source, "y_test": self.y_test, "fold_of": fold_of}
        about = {"names": np.array(names), "stops": self.stops, "kept": kept, "best": np.array(best)}
        return {**found, **labels, **about, "n_u": np.array(self.n_u), "standard_oof": standard["nll_oof"][0]}

    def trained(self, candidates: list[Any], stops: Any, until_it_rises: bool = False) -> dict[str, Any]:
        """Everything that is known of the candidates at each stop, `[P, S, …]`."""
        import jax
        import numpy as np

        from nu_ensembles.engine.assembly import MemberSet, assemble
        from nu_ensembles.engine.pool import LanePool
        from nu_ensembles.engine.predict import lane_predictions

        job = self.job
        keys = [jax.random.fold_in(job.key, number) for number in range(len(self.folds))]
        sets = []
        for method in candidates:
            for key, fold in zip(keys, self.folds, strict=True):
                sets.append(MemberSet(key, range(FOLD_MEMBERS), method, rows=fold.train, labels_key=job.key))
            sets.append(MemberSet(job.key, range(MEMBERS), method))
        assembly = assemble(job.network, job.settings, job.rows, self.n_classes, sets)
        targets = np.asarray(assembly.data.targets)[:MEMBERS]
        pool = LanePool(assembly, LANES)
        everything = np.concatenate(list(self.parts.values()))
        found: list[list[dict[str, Any]]] = []
        for step in stops:
            pool.advance(int(step), lambda *_: None)
            found.append([])
            for indices, run in pool.groups:
                for start in range(0, len(indices), LANES):
                    variables = jax.tree.map(lambda leaf, s=start: leaf[s : s + LANES], run.variables)
                    p = lane_predictions(job.network, "float32", *variables, everything)
                    found[-1].append(self.seen(p, targets))
            nll = [at_stop[0]["nll_oof"] for at_stop in found]
            if until_it_rises and len(nll) >= 4 and min(nll[-3:]) > 1.02 * min(nll):
                break
        return {key: np.stack([[each[key] for each in at] for at in found], axis=1) for key in found[0][0]}

    def seen(self, p: Any, targets: Any) -> dict[str, Any]:
        """Of one candidate's lanes `[L, rows, C]`, at one stop."""
        import numpy as np

        from nu_ensembles.metrics import ece
        from nu_ensembles.metrics.temperature import fit_temperature

        ends = np.cumsum([len(part) for part in self.parts.values()])[:-1]
        on = dict(zip(self.parts, np.split(p, ends, axis=1), strict=True))
        members = {name: part[-MEMBERS:].astype(np.float64) for name, part in on.items()}
        folds = {name: part[:-MEMBERS].reshape(FOLDS, FOLD_MEMBERS, *part.shape[1:]) for name, part in on.items()}
        mean = {name: part.mean(axis=0) for name, part in members.items()}
        out_of_fold = np.zeros((len(self.y), self.n_classes))
        of_members = np.zeros((FOLD_MEMBERS, len(self.y), self.n_classes))
        for number, fold in enumerate(self.folds):
            of_members[:, fold.held_out] = folds["z"][number][:, fold.held_out]
        out_of_fold = of_members.mean(axis=0)
        on_u = folds["u"].reshape(-1, *folds["u"].shape[2:]).astype(np.float64)
        mixed_labels = mean["first"].argmax(axis=1)
        found: dict[str, Any] = {
            "nll_oof": _nll(out_of_fold, self.y),
            "nll_z": _nll(mean["z"], self.y),
            "pseudo_temperature": fit_temperature(mean["mixed"], mixed_labels, 0.0),
            "own": float(-np.log(np.take_along_axis(members["u"], targets[:, : len(self.y_u), None], -1)).mean()),
            "fold_conf_u": float(on_u.mean(axis=0).max(axis=-1).mean()),
            "fold_agree_u": float(_agreement(on_u).mean()),
        }
        for name, labels in (("u", self.y_u), ("source", self.y_source), ("test", self.y_test)):
            found |= {f"nll_{name}": _nll(mean[name], labels), f"ece_{name}": ece(mean[name], labels)}
            found |= {f"acc_{name}": float((mean[name].argmax(-1) == labels).mean())}
            found |= {f"conf_{name}": float(mean[name].max(-1).mean())}
            found |= {f"agree_{name}": float(_agreement(members[name]).mean())}
        kept = {name: slice(MOST[name][1]) for name in MOST}
        rows = {"oof": out_of_fold[kept["z"]], "fold_u": on_u.mean(axis=0)[kept["u"]]}
        rows |= {name: mean[name][kept[name]] for name in MOST if name != "z"}
        found |= {name: np.log(np.maximum(part, 1e-30)).astype(np.float16) for name, part in rows.items()}
        each = [of_members[:, kept["z"]], *(members[name][:, kept[name]] for name in ("u", "source", "test"))]
        found["agree"] = np.concatenate([_agreement(part) for part in each]).astype(np.float16)
        found["spread"] = np.concatenate([_spread(part) for part in each]).astype(np.float16)
        found["fold_agree"] = _agreement(on_u[:, kept["u"]]).astype(np.float16)
        found["fold_spread"] = _spread(on_u[:, kept["u"]]).astype(np.float16)
        votes = np.concatenate([members["u"].argmax(-1), folds["u"].mean(axis=1).argmax(-1)])
        return {**found, "votes": votes[:, kept["u"]].astype(np.uint8)}


def _nll(p: Any, y: Any) -> float:
    import numpy as np

    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-30)).mean())


def _agreement(members: Any) -> Any:
    """The share of pairs of members `[K, N, C]` that predict the same class, of each row."""
    import numpy as np

    n, votes = len(members), members.argmax(axis=-1)
    counts = (votes[..., None] == np.arange(members.shape[-1])).sum(axis=0)
    return (counts * (counts - 1)).sum(axis=-1) / (n * (n - 1))


def _spread(members: Any) -> Any:
    """Entropy of the mean less the mean entropy, nats, of each row."""
    import numpy as np

    def entropy(p: Any) -> Any:
        return -(p * np.log(np.maximum(p, 1e-30))).sum(axis=-1)

    return entropy(members.mean(axis=0)) - entropy(members).mean(axis=0)


def _single_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shifts", nargs="+", default=["development"], help="names, or development or confirming")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--labels", type=int, nargs="+", default=[100])
    parser.add_argument("--sample", type=int, help="so many of all, in an order that names decide")
    parser.add_argument("--candidates", choices=("all", "fine", "rule"), default="all", help="beside 0")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no more after these")
    options = parser.parse_args()
    from nu_ensembles_studies import shifts

    named = []
    for name in options.shifts:
        of_role = [each for each in shifts.names() if shifts.role_of(each) == name]
        named += of_role or [each for each in shifts.names() if each.endswith(name)]
    named = [name for name in dict.fromkeys(named) if not name.startswith("cifar10.") and shifts.available(name)]
    wanted = [(name, seed, n) for name in named for seed in options.seeds for n in options.labels]
    # A shift's corruptions are many and alike: every third of them is enough to begin with.
    wanted.sort(key=lambda each: (_is_one_of_many(each), zlib.crc32(repr(each).encode())))
    end = time.time() + options.seconds
    _single_thread()
    os.environ[CANDIDATES] = options.candidates  # which the workers inherit
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(_until, end, options.folder, *each) for each in wanted[: options.sample]]
        for task in as_completed(tasks):
            try:
                print(task.result(), flush=True)
            except Exception as error:
                print(repr(error), flush=True)


def _is_one_of_many(which: tuple[str, int, int]) -> bool:
    return which[0].startswith("digits.") and which[0][-1].isdigit() and zlib.crc32(repr(which).encode()) % 3 > 0


def _until(end: float, folder: Path, *which: Any) -> str:
    return measure(folder, *which) if time.time() < end else f"{which}: no time left"


if __name__ == "__main__":
    main()

"""Trainings under shifts, kept as predictions, so that rules are compared without training anything again.

    python benchmarks/deployment_bank.py FOLDER --shifts development --seeds 100 101 --labels 50 100 200 --workers 2

For each (network, shift, seed, labels) the standard ensemble and one of every beta are trained as a search under shift
does it: fold members, and five on all labels, whose predictions on unlabelled rows are kept where the standard ensemble
is best out of fold; and, for as many more steps as all labels are more than a fold's, the ensemble that a fit would
return. Beside them stand classifiers of another kind, and how well rows of the two places can be told apart. FOLDER
gets one .npz each; those that exist are skipped. Log probabilities are float16, which keeps those near one, too.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from deployment_runs import UNSHIFTED, agreement_of, by_table, nll_of, wanted_runs

# All in units of the labelled loss. Where nothing differs, or class shares alone, 0 is all that is wanted.
BETAS = (0.0, 0.03, 0.08, 0.2, 0.6, 1.5)
FOLDS, FOLD_MEMBERS, MEMBERS, STOPS, MAX_ITER, LATER_STOPS = 5, 3, 5, 12, 300, 2
LANES = FOLDS * FOLD_MEMBERS + MEMBERS
# Of each part at most so many rows are predicted, and so many of these kept row by row.
MOST = {"u": (500, 250), "source": (400, 150), "test": (1000, 250)}
TREES, NEIGHBOURS = 100, 5


def measure(folder: Path, network: str, name: str, seed: int, n_labelled: int) -> str:
    started = time.process_time()
    file = folder / f"{network}.{name}.{seed}.{n_labelled}.npz"
    if file.exists():
        return f"{file.name} is there"
    import numpy as np

    from nu_ensembles.errors import InputError

    try:
        found = Bank(network, name, seed, n_labelled).arrays()
    except InputError as error:
        return f"{file.name}: {error}"
    folder.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".part")
    with aside.open("wb") as opened:
        np.savez_compressed(opened, **found)
    os.replace(aside, file)
    return f"{file.name}: {time.process_time() - started:.0f} s"


class Bank:
    """One shift, and what all candidates predict on it."""

    def __init__(self, network: str, name: str, seed: int, n_labelled: int) -> None:
        import numpy as np

        from nu_ensembles.engine.settings import Settings
        from nu_ensembles.methods import Nu
        from nu_ensembles.problem import prepare, random_key
        from nu_ensembles.training import make_job, steps_in
        from nu_ensembles.tuning import SearchSettings, stratified_folds
        from nu_ensembles.tuning.folds import more_rows
        from nu_ensembles_studies import shifts

        shift = shifts.load(name, seed, n_labelled)
        problem = prepare(shift.x, shift.y, shift.x_unlabeled, standardize=shift.x.ndim == 2)
        n_steps = steps_in(MAX_ITER, len(problem.x), 32)
        self.stops = SearchSettings(n_stops=STOPS).stops(n_steps)
        self.job = make_job(problem, network, Nu(), Settings(batch_size=32), MEMBERS, n_steps, random_key(seed))
        self.folds = stratified_folds(problem.y, FOLDS, 1, seed)
        self.longer = np.ceil(self.stops * more_rows(self.job, self.folds)).astype(int)
        self.y, self.n_classes = problem.y, len(problem.classes)
        self.betas = BETAS[:1] if name.endswith(UNSHIFTED) else BETAS
        u = problem.x_unlabeled
        assert u is not None
        self.problem, self.n_u = problem, len(u)
        self.parts, self.labels = {"u": u[: MOST["u"][0]]}, {"u": shift.y_unlabeled[: MOST["u"][0]]}
        for part, x, y in (
            ("source", shift.x_source_test, shift.y_source_test),
            ("test", shift.x_test, shift.y_test),
        ):
            most = MOST[part][0]
            self.parts[part], self.labels[part] = problem.further_rows(x[:most], problem.classes[y[:most]], "x")

    def arrays(self) -> dict[str, Any]:
        import numpy as np

        by_beta = [self.trained(0.0, len(self.stops))]
        best = int(np.nanargmin(by_beta[0]["nll_oof"]))
        by_beta += [self.trained(beta, best + LATER_STOPS + 1, best) for beta in self.betas[1:]]
        n_stops = max(len(each["nll_oof"]) for each in by_beta)

        def padded(values: Any, by_stop: bool) -> Any:
            if not by_stop:
                return values
            gap = [(0, n_stops - len(values)), *[(0, 0)] * (values.ndim - 1)]
            return np.pad(values, gap, constant_values=np.nan)

        of_stops = {key for key, value in by_beta[0].items() if len(value) == len(by_beta[0]["nll_oof"])}
        of_stops -= {"oof", "u", "test", "source", "oof_votes", "u_votes"}
        found = {key: np.stack([padded(each[key], key in of_stops) for each in by_beta]) for key in by_beta[0]}
        labels = {f"y_{part}": y.astype(np.int16) for part, y in self.labels.items()}
        about = {"betas": np.array(self.betas), "stops": self.stops, "best": np.array(best), "n_u": np.array(self.n_u)}
        return {**found, **labels, **about, "y": self.y.astype(np.int16), **self.of_another_kind(), **self.apart()}

    def trained(self, beta: float, n_stops: int, best: int | None = None) -> dict[str, Any]:
        """One candidate; best: the stop at which the standard ensemble is, None for that ensemble itself."""
        import jax
        import numpy as np

        from nu_ensembles.engine.assembly import MemberSet, assemble
        from nu_ensembles.engine.pool import LanePool
        from nu_ensembles.engine.predict import lane_predictions
        from nu_ensembles.methods import Nu

        job, method = self.job, Nu(beta, weighting="labelled_loss").effective()
        sets = []
        for number, fold in enumerate(self.folds):
            key = jax.random.fold_in(job.key, number)
            sets.append(MemberSet(key, range(FOLD_MEMBERS), method, rows=fold.train, labels_key=job.key))
        sets.append(MemberSet(job.key, range(MEMBERS), method, rows=np.arange(len(self.y))))
        pool = LanePool(assemble(job.network, job.settings, job.rows, self.n_classes, sets), LANES)
        everything = np.concatenate([self.problem.x, *self.parts.values()])
        stops, longer = self.stops[:n_stops], self.longer[:n_stops]
        seen: dict[int, dict[str, Any]] = {}
        final: dict[int, dict[str, Any]] = {}
        for step in np.union1d(stops, longer):
            pool.advance(int(step), lambda *_: None)
            networks = jax.device_put(pool.variables(np.arange(LANES)))
            p = lane_predictions(job.network, "float32", *networks, everything).astype(np.float64)
            for at in np.flatnonzero(stops == step):
                seen[int(at)] = self.seen(p)
            for at in np.flatnonzero(longer == step):
                final[int(at)] = self.final(p)
            nll = [seen[at]["nll_oof"] for at in sorted(seen)]
            if best is None and len(final) >= 4 and min(nll[-3:]) > 1.05 * min(nll):
                break
        at_stops = sorted(final)
        own = int(np.argmin([seen[at]["nll_oof"] for at in at_stops]))
        shared = own if best is None else best
        found = {key: np.array([seen[at][key] for at in at_stops]) for key in _scalars(seen[0])}
        found |= {key: np.array([final[at][key] for at in at_stops]) for key in _scalars(final[0])}
        rows = {"oof": seen[own]["rows_oof"], "u": seen[shared]["rows_u"]}
        rows |= {part: final[own][f"rows_{part}"][: MOST[part][1]] for part in ("source", "test")}
        found |= {key: np.log(np.maximum(p, 1e-30)).astype(np.float16) for key, p in rows.items()}
        return {**found, "oof_votes": seen[shared]["votes_oof"], "u_votes": seen[shared]["votes_u"]}

    def split(self, p: Any) -> dict[str, Any]:
        import numpy as np

        parts = {"z": self.problem.x, **self.parts}
        return dict(
            zip(parts, np.split(p, np.cumsum([len(each) for each in parts.values()])[:-1], axis=1), strict=True)
        )

    def seen(self, p: Any) -> dict[str, Any]:
        """What a search sees of all lanes `[L, rows, C]`."""
        import numpy as np

        on = self.split(p)
        folds, members = on["z"][:-MEMBERS].reshape(FOLDS, FOLD_MEMBERS, -1, self.n_classes), on["u"][-MEMBERS:]
        own = np.zeros((FOLD_MEMBERS, len(self.y), self.n_classes))
        for number, fold in enumerate(self.folds):
            own[:, fold.held_out] = folds[number][:, fold.held_out]
        mean, on_u = own.mean(axis=0), members.mean(axis=0)
        of_folds = on["u"][:-MEMBERS].reshape(FOLDS, FOLD_MEMBERS, *on["u"].shape[1:])
        kept, fold_mean = MOST["u"][1], of_folds.mean(axis=(0, 1))
        votes = np.concatenate([members.argmax(-1), of_folds.mean(axis=1).argmax(-1)])[:, :kept].astype(np.uint8)
        return {
            "nll_oof": nll_of(mean, self.y),
            "acc_oof": float((mean.argmax(-1) == self.y).mean()),
            "conf_oof": float(mean.max(-1).mean()),
            "agree_oof": agreement_of(own),
            "member_acc_oof": float((own.argmax(-1) == self.y).mean()),
            "agree_u": agreement_of(members),
            "agree_within_folds_u": float(np.mean([agreement_of(each) for each in of_folds])),
            "agree_between_folds_u": agreement_of(of_folds.mean(axis=1)),
            "conf_u": float(on_u.max(-1).mean()),
            "member_conf_u": float(members.max(-1).mean()),
            "member_conf_oof": float(own.max(-1).mean()),
            "fold_conf_u": float(fold_mean.max(-1).mean()),
            "acc_seen_u": float((on_u.argmax(-1) == self.labels["u"]).mean()),
            "rows_oof": mean,
            "rows_u": on_u[:kept],
            "votes_oof": own.argmax(-1).astype(np.uint8),
            "votes_u": votes,
        }

    def final(self, p: Any) -> dict[str, Any]:
        """Of the ensemble that a fit would return."""
        from nu_ensembles.metrics import ece

        found: dict[str, Any] = {}
        for part, on in self.split(p[-MEMBERS:]).items():
            if part == "z":
                continue
            mean, y = on.mean(axis=0), self.labels[part]
            found |= {f"nll_{part}": nll_of(mean, y), f"ece_{part}": ece(mean, y), f"rows_{part}": mean}
            found |= {f"acc_{part}": float((mean.argmax(-1) == y).mean()), f"conf_{part}": float(mean.max(-1).mean())}
            found[f"agreement_{part}"] = agreement_of(on)
        return found

    def of_another_kind(self) -> dict[str, Any]:
        """Classes predicted by a forest, a linear classifier and neighbours: out of fold, and on unlabelled rows."""
        import numpy as np
        from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier

        x, u = (self._flat(rows) for rows in (self.problem.x, self.parts["u"]))
        found: dict[str, Any] = {}
        for name, make in (
            ("forest", lambda: RandomForestClassifier(TREES, random_state=0)),
            ("extra", lambda: ExtraTreesClassifier(TREES, random_state=0)),
            ("linear", lambda: LogisticRegression(C=0.1, max_iter=300)),
            ("near", lambda: KNeighborsClassifier(NEIGHBOURS, weights="distance")),
        ):
            oof = np.zeros((len(self.y), self.n_classes))
            on_u = np.zeros((len(u), self.n_classes))
            for fold in self.folds:
                model = make().fit(x[fold.train], self.y[fold.train])
                oof[np.ix_(fold.held_out, model.classes_)] = model.predict_proba(x[fold.held_out])
            model = make().fit(x, self.y)
            on_u[:, model.classes_] = model.predict_proba(u)
            for part, p in (("oof", oof), ("u", on_u[: MOST["u"][1]])):
                found[f"{name}_{part}"] = p.astype(np.float16)
        return found

    def apart(self) -> dict[str, Any]:
        """The two-sample test, and each row's chance of being of the deployment, by trees that had not seen it."""
        import numpy as np
        from sklearn.ensemble import RandomForestClassifier

        from nu_ensembles.deployment import two_sample_of

        parts = {"z": self.problem.x, **self.parts}
        flat = {name: self._flat(rows) for name, rows in parts.items()}
        inside = np.repeat([0, 1], [len(flat["z"]), len(flat["u"])])
        options: Any = {"min_samples_leaf": 5, "oob_score": True, "class_weight": "balanced", "random_state": 0}
        forest = RandomForestClassifier(TREES, **options).fit(np.concatenate([flat["z"], flat["u"]]), inside)
        found = {
            "z": forest.oob_decision_function_[: len(self.y), 1],
            "u": forest.oob_decision_function_[len(self.y) :, 1],
        }
        found |= {part: forest.predict_proba(flat[part])[:, 1] for part in ("source", "test")}
        kept = {part: p[: MOST[part][1]] if part in MOST else p for part, p in found.items()}
        shift = two_sample_of(self.problem)
        told = (np.nan, np.nan) if shift is None else (shift.auroc, shift.p_value)
        return {**{f"there_{part}": p.astype(np.float16) for part, p in kept.items()}, "shift": np.array(told)}

    def _flat(self, rows: Any) -> Any:
        import numpy as np

        return rows.reshape(len(rows), -1).astype(np.float32)


def _scalars(found: dict[str, Any]) -> list[str]:
    return [key for key in found if not key.startswith(("rows_", "votes_"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shifts", nargs="+", default=["development"], help="endings of names, or a role")
    parser.add_argument("--network", default="mlp", choices=("mlp", "lenet"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--labels", type=int, nargs="+", default=[100])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no more after these")
    parser.add_argument("--dry", action="store_true", help="count, and train nothing")
    options = parser.parse_args()
    end = time.time() + options.seconds
    wanted = wanted_runs(options)
    print(len(wanted), "runs", flush=True)
    if options.dry:
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    # Runs of one table share their compiled programs, so each worker takes whole tables by turns of one seed.
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for task in [pool.submit(_until, end, options.folder, options.network, each) for each in by_table(wanted)]:
            try:
                print(task.result(), flush=True)
            except Exception as error:
                print(repr(error), flush=True)


def _until(end: float, folder: Path, network: str, group: list[tuple[str, int, int]]) -> str:
    return "\n".join(
        measure(folder, network, *each) if time.time() < end else f"{each}: no time left" for each in group
    )


if __name__ == "__main__":
    main()

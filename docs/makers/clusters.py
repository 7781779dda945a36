"""What searches and studies on many workers come to when one dies: the table of the page from laptop to cluster."""

from __future__ import annotations

from makers.files import Maker, stored, table

WAYS = {
    "nu.fit": "Optuna's loop, whose objective calls `nu.fit` for each fold",
    "lanes alone": "`nu.tune`, one trial at a time",
    "no dropping": "`nu.tune`, trials side by side, none dropped",
    "side by side": "`nu.tune`, as it is by default",
}


def workers_that_die() -> str:
    """A search by two workers of which one is killed, and a study on nodes of which one is."""
    search, cells = stored("tune-two-workers-cpu"), stored("ray-cells-cpu")
    (shared,) = search["rows"]
    study = next(row for row in cells["rows"] if row["what"] == "study")
    tasks = next(row for row in cells["rows"] if row["what"] == "tasks")
    head = ["what", "pieces", "ended at the kill", "same results, bit for bit"]
    said = {True: "yes", False: "no"}
    lines = [
        [
            "a search, two workers on PostgreSQL, one killed",
            f"{shared['trials']} trials",
            str(shared["ended_at_the_kill"]),
            said[shared["results_are_the_same_bytes"]],
        ],
        [
            f"a study, {study['nodes']} Ray nodes, one killed",
            f"{study['cells']} cells",
            str(study["cells_at_the_kill"]),
            said[study["same_cells_to_the_bit"] and study["same_results_file"]],
        ],
    ]
    source = (
        f"Measured by `{search['command']}` and `{cells['command']}` (Ray {cells['ray']}) on one machine of "
        f"{cells['environment']['cores']} cores: its nodes are processes. {tasks['cells']} cells that measure nothing "
        f"go through Ray at {tasks['a_second']:.0f} a second, each written to disk by the driver (load of the machine: "
        f"{tasks['load']:.0f})."
    )
    return "\n".join([*table(head, lines), "", source, ""])


def trials_side_by_side() -> str:
    """`nu.tune` against Optuna's own loop around `nu.fit`, at equal trials."""
    found = stored("tune-side-by-side-cpu")
    seconds = {(row["trials"], row["way"]): row["seconds"] for row in found["rows"]}
    lines = []
    for n_trials in sorted({n for n, _ in seconds}):
        for way in dict.fromkeys(way for _, way in seconds):
            if (taken := seconds.get((n_trials, way))) is not None:
                times = f"{seconds[n_trials, 'nu.fit'] / taken:.1f}"
                lines.append([WAYS[way], str(n_trials), f"{taken:.1f}", times])
    head = ["1,000 steps, 15 networks a trial", "trials", "seconds", "times as fast as Optuna's loop"]
    source = (
        f"Measured by `{found['command']}` on {found['environment']['cores']} cores, imports and compilation included."
    )
    return "\n".join([*table(head, lines), "", source, ""])


MAKER = Maker({"workers-that-die.md": workers_that_die, "tune-side-by-side.md": trials_side_by_side})

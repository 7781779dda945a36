"""What searches and studies on many workers come to: the figures of the page from laptop to cluster."""

from __future__ import annotations

from makers.files import Maker, stored, table, with_numbers_to_the_right

WAYS = {
    "side by side": "`nu.tune`, trials side by side",
    "no dropping": "the same, every trial to its last step",
    "lanes alone": "the same, one trial at a time",
    "nu.fit": "Optuna's loop over `nu.fit`, one trial at a time",
}


def side_by_side() -> str:
    """A search by `nu.tune` and by Optuna's own loop, by the clock and in processor time."""
    found = stored("tune-side-by-side-cpu")
    rows = {row["way"]: row for row in found["rows"]}
    lines = []
    for way, title in WAYS.items():
        if way not in rows:
            continue
        row = rows[way]
        faster = [f"{rows['nu.fit'][name] / row[name]:.1f} ×" for name in ("seconds", "processor_seconds")]
        times = [f"{row['seconds']:.0f}", f"{row['processor_seconds']:.0f}", *faster, f"{row['load']:.0f}"]
        lines.append([title, str(row["trials"]), *times, f"{row['best_nll']:.3f}"])
    head = ["way", "trials", "seconds", "processor seconds", "by the clock", "by the processor", "load"]
    source = (
        f"Measured by `{found['command']}` on {found['environment']['cores']} cores, compilation included: digits, 200 "
        f"labels, {found['steps']} steps and more, five folds of three networks, twelve scores each. The load is what "
        "the machine had at the end; above 2 others were at work, and the clock says less than the processor time."
    )
    table_lines = with_numbers_to_the_right([*head, "best held-out NLL"], lines)
    return "\n".join([*table_lines, "", source, ""])


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
        f"go through Ray at {tasks['a_second']:.0f} a second, each written to disk by the driver."
    )
    return "\n".join([*table(head, lines), "", source, ""])


MAKER = Maker({"tune-side-by-side.md": side_by_side, "workers-that-die.md": workers_that_die})

"""What searches and studies on many workers come to when one dies: the table of the page from laptop to cluster."""

from __future__ import annotations

from makers.files import Maker, stored, table


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


MAKER = Maker({"workers-that-die.md": workers_that_die})

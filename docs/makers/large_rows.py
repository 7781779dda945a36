"""The table of docs/large-data.md from what `benchmarks/large_rows.py` stored."""

from __future__ import annotations

from makers.files import Maker, stored, table


def large_rows() -> str:
    """Peak memory, time of a step against rows on the device, and a prediction that was killed."""
    found = stored("large-rows-cpu")
    parts = {row["part"]: row for row in found["rows"]}
    first, again, turns = parts["first fit"], parts["second fit"], parts["steps by turns"]
    predicted = parts["prediction, resumed"]
    n_rows = f"{first['rows']:,} rows × 20 columns"

    def memory(row: dict) -> str:
        return f"{row['own_peak_mb']:,.0f} MB above {row['imported_mb']:,.0f} MB"

    lines = [
        [f"first `nu.fit`, {first['steps']:,} steps", f"{first['seconds']:,.0f} s", memory(first)],
        [f"the same again, {again['steps']:,} steps", f"{again['seconds']:,.0f} s", memory(again)],
        ["a step, rows in files", f"{turns['files_ms']:.2f} ms ({turns['files_cpu_ms']:.2f} of processors)", ""],
        [
            f"a step, {turns['n_resident']:,} of them on the device",
            f"{turns['device_ms']:.2f} ms ({turns['device_cpu_ms']:.2f} of processors)",
            "",
        ],
        [
            "both by turns, ratio",
            f"{turns['ratio']:.2f} ({min(turns['ratios']):.2f} to {max(turns['ratios']):.2f})",
            "",
        ],
        [
            f"`predict_into` of {predicted['n_rows']:,} rows by {predicted['members_predicting']} members, resumed "
            f"after a kill with {predicted['n_earlier']} of {predicted['n_parts']} parts",
            f"{predicted['seconds']:,.0f} s",
            memory(predicted),
        ],
    ]
    complete = "Every row was there once, and in its place" if predicted["complete"] else "Rows were missing or doubled"
    machine, others = found["environment"], turns["processors_of_others"]
    source = (
        f"Measured by `{found['command']}` on {machine['cores']} CPU cores, of which others used {others:.1f} during "
        f"the steps, jax {machine['versions']['jax']}. Memory is the highest resident size of a process, above "
        f"what it holds when all is imported. {complete}."
    )
    return "\n".join([*table([n_rows, "time", "peak memory"], lines), "", source, ""])


MAKER = Maker(tables={"large-rows.md": large_rows})

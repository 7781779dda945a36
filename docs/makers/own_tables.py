"""Tables as they are against a pipeline made by hand, and what it takes until a first report of one's own."""

from __future__ import annotations

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right


def mixed_tables() -> str:
    """Test NLL of both ways on each table, and their paired difference over the splits."""
    found = stored("mixed-tables-cpu")
    lines = []
    for row in found["rows"]:
        ours, by_hand = (np.array([run[way]["nll"] for run in row["runs"]]) for way in ("as they are", "by hand"))
        change, error = ours.mean() / by_hand.mean() - 1, (ours - by_hand).std(ddof=1) / len(ours) ** 0.5
        numbers = [f"{by_hand.mean():.3f}", f"{ours.mean():.3f}", f"{100 * change:+.1f} %"]
        lines.append([row["table"], f"{row['rows']:,}", *numbers, f"± {100 * error / by_hand.mean():.1f} %"])
    head = ["table", "rows", "NLL by hand", "NLL as they are", "difference", "standard error"]
    source = (
        f"Measured by `{found['command']}` on a CPU, jax {found['environment']['versions']['jax']}, code "
        f"{' and '.join(sorted({row['code'] for row in found['rows']}))}: up to 300 labelled "
        f"and 1,000 unlabelled rows, {found['splits']} splits; the standard error is that of the paired difference."
    )
    return "\n".join([*with_numbers_to_the_right(head, lines), "", source, ""])


def first_report() -> str:
    """What three commands take on a machine that has nothing yet, in one sentence, and what is installed in another."""
    found = stored("first-report-cpu")
    rows = {row["what"]: row for row in found["rows"]}
    seconds, sizes, imports = (rows[what] for what in ("three commands", "installed", "imports"))
    each, all_bytes = seconds["seconds"], sum(sizes["bytes"].values())
    own, import_seconds = sizes["bytes"]["nu-ensembles"], imports["seconds"]
    cores = found["environment"]["cores"]
    return (
        f"From `pip install` to the page took {seconds['total']:.0f} s on {cores} cores: {each['install']:.0f} s to "
        f"install, {each['fit']:.0f} s to train, {each['report']:.0f} s for the page. Installed are "
        f"{all_bytes / 1e6:,.0f} MB, "
        f"{own / 1e6:.0f} MB of them this package; importing the classifier takes "
        f"{import_seconds['the classifier']['median']:.1f} s, `import jax, sklearn` alone "
        f"{import_seconds['jax and sklearn']['median']:.1f} s (`{found['command']}`).\n"
    )


MAKER = Maker(tables={"mixed-tables.md": mixed_tables, "first-report.md": first_report})

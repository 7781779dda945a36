"""The table of the torture suite, from what its last whole run found."""

from __future__ import annotations

from typing import Any

from makers.files import Maker, stored, table

NAME = "torture"


def torture() -> str:
    """What was tried, refused and failed, by campaign and kind."""
    found = stored(NAME)
    rows = [
        [row["campaign"], row["kind"], *(f"{row[count]:,}" for count in ("tried", "refused", "failed"))]
        for row in shortened(found["rows"])
    ]
    totals: dict[str, list[int]] = {}
    for row in found["rows"]:
        counts = totals.setdefault(row["campaign"], [0, 0, 0])
        for place, count in enumerate(("tried", "refused", "failed")):
            counts[place] += row[count]
    bars = found["bars"]
    whole = [
        [name, "all", *(f"{count:,}" for count in counts), f"{bars[name]:,}" if name in bars else "–"]
        for name, counts in totals.items()
    ]
    head = ["campaign", "kind", "tried", "refused in a sentence", "failed"]
    device, versions = found["environment"]["device"], found["environment"]["versions"]
    source = (
        f"From `{found['command']}`, {found['seconds'] / 60:.0f} minutes on {device}, Python "
        f"{found['environment']['python']}, jax {versions['jax']}."
    )
    return "\n".join(
        [
            *table([*head, "asked for"], whole),
            "",
            *table(head, rows),
            "",
            *(f"- {note}" for note in found.get("notes", ())),
            "",
            source,
            "",
        ]
    )


def shortened(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All functions of a room in one row; the kinds of a campaign together."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        kind = row["kind"].partition(".")[0] if row["campaign"] == "arguments" else row["kind"]
        same = found.setdefault((row["campaign"], kind), {**row, "kind": kind, "tried": 0, "refused": 0, "failed": 0})
        for count in ("tried", "refused", "failed"):
            same[count] += row[count]
    campaigns = list(dict.fromkeys(row["campaign"] for row in rows))
    return sorted(found.values(), key=lambda row: campaigns.index(row["campaign"]))


MAKER = Maker(tables={"torture.md": torture})

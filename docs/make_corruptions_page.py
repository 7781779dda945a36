"""Draws the contact sheet of docs/corruptions.md from the images that the tests carry, and writes its table of speeds.

python docs/make_corruptions_page.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from nu_ensembles.corruptions import EXTRA_NAMES, NAMES, corrupt
from nu_ensembles.report.contact_sheet import contact_sheet
from nu_ensembles.report.svg import png_bytes

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "tests" / "golden" / "corruptions"
SPEED = HERE.parent / "results" / "corruption-speed.json"
# A truck of the CIFAR-10 test set.
SHOWN = (14,)


def sheet() -> bytes:
    """All corruptions at all severities of one image."""
    images = np.load(GOLDEN / "clean.npz")["images"][list(SHOWN)]
    return png_bytes(contact_sheet(images), dots_per_inch=110)


def frost() -> str:
    """Mean absolute difference of our frost and of the published one, by severity."""
    images = np.load(GOLDEN / "clean.npz")["images"]
    published = json.loads((GOLDEN / "published.json").read_text())["stats"]["frost"]
    lines = ["| severity | published, two sets of seeds | ours, 20 seeds | ratio |", "|---|---|---|---|"]
    for severity, stats in published.items():
        first, second = stats["mean_abs_diff"]
        ours = np.mean(
            [np.abs(corrupt(images, "frost", int(severity), s).astype(int) - images).mean() for s in range(20)]
        )
        ratio = ours / ((first + second) / 2)
        lines.append(f"| {severity} | {first:.1f}, {second:.1f} | {ours:.1f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def speed() -> str:
    """Images a second of each corruption."""
    found = json.loads(SPEED.read_text())
    lines = ["| corruption | images/s |", "|---|---|"]
    for name in NAMES:
        extra = " (extra)" if name in EXTRA_NAMES else ""
        lines.append(f"| {name}{extra} | {found['images_per_second'][name]:,.0f} |")
    lines += [
        "",
        f"32×32 colour images, one process, mean over severities. {found['images']:,} images in all 75 ways took "
        f"{found['all_75_measured_s']:.0f} s in {found['processes']} processes on a machine of {found['cores']} cores "
        f"whose load average was {found['load_average']:.1f}; for 10,000 images that makes {found['all_75_s']:.0f} s. "
        f"Measured by `{found['command']}`.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "images" / "corruptions.png").write_bytes(sheet())
    (HERE / "generated" / "corruption-frost.md").write_text(frost(), encoding="utf-8")
    (HERE / "generated" / "corruption-speed.md").write_text(speed(), encoding="utf-8")

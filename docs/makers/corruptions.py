"""The pictures and tables of docs/corruptions.md; the pictures come from the images that the tests carry."""

from __future__ import annotations

import io
import json

import numpy as np
from PIL import Image

from makers.files import ROOT, Maker, stored, table
from nu_ensembles.corruptions import EXTRA_NAMES, NAMES, corrupt
from nu_ensembles.corruptions.frost_texture import N_TEXTURES, texture
from nu_ensembles.corruptions.severities import SEVERITIES
from nu_ensembles.corruptions.weather import frost as lay_frost
from nu_ensembles.report.contact_sheet import contact_sheet
from nu_ensembles.report.svg import png_bytes

GOLDEN = ROOT / "tests" / "golden" / "corruptions"
# A truck of the CIFAR-10 test set.
SHOWN = (14,)
# An airplane on an even ground, on which the ice can be seen.
FROZEN = 3


def sheet() -> bytes:
    """All corruptions at all severities of one image."""
    images = np.load(GOLDEN / "clean.npz")["images"][list(SHOWN)]
    return png_bytes(contact_sheet(images), dots_per_inch=110)


def frozen() -> np.ndarray:
    """The five textures, and one image under a piece of each, at severities 2 and 5: uint8 `[H, W, 3]`."""
    image = np.load(GOLDEN / "clean.npz")["images"][[FROZEN] * N_TEXTURES]
    which, corner = np.arange(N_TEXTURES), np.full(N_TEXTURES, 40)
    pieces = [np.stack([texture(n)[:128, :128] for n in which]).astype(np.uint8)]
    for severity in (2, 5):
        small = lay_frost(image, which, corner, corner, *SEVERITIES["frost"][severity - 1])
        pieces.append(small.repeat(4, axis=1).repeat(4, axis=2))
    margin = ((0, 0), (0, 4), (0, 4), (0, 0))
    rows = [np.concatenate(list(np.pad(row, margin, constant_values=255)), axis=1) for row in pieces]
    return np.concatenate(rows)


def frost() -> str:
    """Mean absolute difference of our frost and of the published one, by severity."""
    images = np.load(GOLDEN / "clean.npz")["images"]
    published = json.loads((GOLDEN / "published.json").read_text())["stats"]["frost"]
    rows = []
    for severity, stats in published.items():
        first, second = stats["mean_abs_diff"]
        ours = np.mean(
            [np.abs(corrupt(images, "frost", int(severity), s).astype(int) - images).mean() for s in range(20)]
        )
        ratio = ours / ((first + second) / 2)
        rows.append([severity, f"{first:.1f}, {second:.1f}", f"{ours:.1f}", f"{ratio:.2f}"])
    lines = table(["severity", "published, two sets of seeds", "ours, 20 seeds", "ratio"], rows)
    return "\n".join(lines) + "\n"


def seeds() -> str:
    """How far the two published sets of draws lie from the mean of our seeds, in standard deviations."""
    found = stored("corruption-seeds")
    rows = []
    for name in dict.fromkeys(row["name"] for row in found["rows"]):
        of_name = [row for row in found["rows"] if row["name"] == name]
        rows.append([name, "; ".join(f"{row['severity']}: {row['z'][0]:+.1f}, {row['z'][1]:+.1f}" for row in of_name)])
    summary = found["summary"]
    note = (
        f"{summary['n']} values of z: mean {summary['mean_z']:+.2f}, standard deviation {summary['sd_z']:.2f}, "
        f"{summary['beyond_2']} beyond ±2, the largest {summary['largest_z']:.2f}; Kolmogorov–Smirnov test against "
        f"Student's t with {found['seeds'] - 1} degrees of freedom: p = {summary['kolmogorov_smirnov_p']:.2f}. "
        f"{found['seeds']} seeds of ours, {found['images']} images. Measured by `{found['command']}`."
    )
    return "\n".join([*table(["corruption", "z of the two published sets, by severity"], rows), "", note, ""])


def speed() -> str:
    """Images a second of each corruption."""
    found = stored("corruption-speed")
    rows = []
    for name in NAMES:
        extra = " (extra)" if name in EXTRA_NAMES else ""
        rows.append([f"{name}{extra}", f"{found['images_per_second'][name]:,.0f}"])
    note = (
        "32×32 colour images, one process, mean over severities. "
        f"{found['all_75_images']:,} images in all 75 ways took {found['all_75_measured_s']:.0f} s in "
        f"{found['processes']} processes on a machine of {found['cores']} cores whose load average was "
        f"{found['load_average']:.1f} in the end, other work included. "
        f"Measured by `{found['command']}`."
    )
    return "\n".join([*table(["corruption", "images/s"], rows), "", note, ""])


def png(pixels: np.ndarray) -> bytes:
    """An image as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


MAKER = Maker(
    tables={"corruption-frost.md": frost, "corruption-seeds.md": seeds, "corruption-speed.md": speed},
    pictures={"corruptions.png": sheet, "frost.png": lambda: png(frozen())},
)

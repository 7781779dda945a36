"""`nu-ensembles corrupt`: the common corruptions of a user's images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from nu_ensembles.cli.options import DATA, FLAG, OUTPUT, ImageSize, Json, Quiet, whole_numbers
from nu_ensembles.cli.output import show

if TYPE_CHECKING:
    import numpy as np

    from nu_ensembles.datasets import Table

CORRUPTION = Group("Corruption", sort_key=2)
Names = Annotated[
    tuple[str, ...], Parameter(name="--name", show_default=False, metavar="NAME", negative=(), group=CORRUPTION)
]
Severities = Annotated[
    tuple[int, ...],
    Parameter(name="--severity", converter=whole_numbers, n_tokens=1, metavar="N,N", negative=(), group=CORRUPTION),
]


def corrupt(
    data: Path,
    *,
    names: Names = ("all",),
    severities: Severities = (1, 2, 3, 4, 5),
    seed: Annotated[int, Parameter(group=CORRUPTION)] = 0,
    image_size: Annotated[ImageSize, Parameter(group=DATA)] = None,
    out: Annotated[Path, Parameter(group=OUTPUT)],
    sheet: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    processes: Annotated[int | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Corrupt images as cameras, weather and storage do, in five severities.

    Writes a folder with one entry for each corruption and severity, such as fog-3: a folder of PNG files with the
    names and sub-folders of the originals if DATA is a folder of images, else an .npz file with X and, where there
    are labels, y. The same seed gives the same images.

    ```
    nu-ensembles corrupt photos/ --name fog --name snow --severity 3 --out foggy
    nu-ensembles corrupt test.npz --out corrupted --sheet
    ```

    Args:
      data: Folder of images, .npz file with uint8 images X [rows, height, width, channels], or .parquet file of images.
      names: Corruption; repeat the option for more. all means the 15 of the benchmark, extra the other four.
      severities: 1 (hardly visible) to 5.
      seed: Of the random numbers.
      image_size: Resize images to HEIGHTxWIDTH first, as in 32x32.
      out: New folder for the corrupted images.
      sheet: Also write contact_sheet.png, the first image in all these ways.
      processes: How many processes work at the same time; all cores by default.
      json: Print one JSON object.
      quiet: No progress bar.
    """
    from nu_ensembles.corruptions.suite import check_choice
    from nu_ensembles.storage import claimed, refuse_existing

    chosen = _chosen(names)
    for name in chosen:
        for severity in severities:
            check_choice(name, severity)
    refuse_existing(out)
    with claimed(out):
        result = _corrupted(data, chosen, severities, seed, image_size, out, sheet, processes, quiet)
    show(result, f"{result['images']} images in {len(chosen) * len(severities)} ways are in {out}.", json)


def _corrupted(
    data: Path,
    chosen: tuple[str, ...],
    severities: tuple[int, ...],
    seed: int,
    image_size: ImageSize,
    out: Path,
    sheet: bool,
    processes: int | None,
    quiet: bool,
) -> dict[str, Any]:
    """Reads the images, and writes them in all these ways; what was written."""
    from nu_ensembles.corruptions import corrupt_all
    from nu_ensembles.corruptions.suite import check_images
    from nu_ensembles.datasets import read_table
    from nu_ensembles.storage import new_folder

    rows = read_table(data, image_size=image_size)
    images = check_images(rows.X)
    written = []
    n_processes = processes if processes is not None else _enough_processes(len(images) * len(chosen) * len(severities))
    with new_folder(out) as folder:
        for name, severity, corrupted in corrupt_all(
            images, chosen, severities, seed, n_processes=n_processes, verbose=not quiet
        ):
            written.append(_write(folder / f"{name}-{severity}", corrupted, rows))
        if sheet:
            from nu_ensembles.report.contact_sheet import contact_sheet
            from nu_ensembles.report.svg import png_bytes

            (folder / "contact_sheet.png").write_bytes(png_bytes(contact_sheet(images[:1], chosen, severities, seed)))
            written.append("contact_sheet.png")
    return {"images": len(images), "corruptions": chosen, "severities": severities, "out": out, "written": written}


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    from nu_ensembles.corruptions import COMMON_NAMES, EXTRA_NAMES

    groups = {"all": COMMON_NAMES, "extra": EXTRA_NAMES}
    return tuple(dict.fromkeys(each for name in names for each in groups.get(name, (name,))))


def _enough_processes(n_images: int) -> int:
    """All cores for long work; starting a process takes as long as corrupting a thousand small images."""
    return (os.cpu_count() or 1) if n_images > 5000 else 1


def _write(place: Path, images: np.ndarray, rows: Table) -> str:
    """One corrupted set as it came: files for files, an array for an array. Returns its name."""
    if rows.row_names is None:
        import numpy as np

        path = place.with_name(f"{place.name}.npz")
        if rows.y is None:
            np.savez(path, X=images)
        else:
            np.savez(path, X=images, y=rows.y)
        return path.name
    from PIL import Image

    for row_name, image in zip(rows.row_names, images, strict=True):
        path = place / Path(row_name).with_suffix(".png")
        # Two originals may differ in their ending only.
        if path.exists():
            path = place / f"{row_name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image if image.shape[-1] == 3 else image[..., 0]).save(path)
    return place.name

"""Files of rows, settings and images: damaged at random, and made to hurt."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from changes import changed_bytes
from tally import Tally

from nu_ensembles import storage
from nu_ensembles.datasets import read_table
from nu_ensembles.datasets.cifar_cache import _with_checksum, mapped

Attempt = Callable[[], None]


def damaged_data(tally: Tally, place: Path, rng: np.random.Generator, rows: Any) -> dict[str, Attempt]:
    """For each kind of file, what changes it somewhere and reads it."""
    x, y, _ = rows
    kinds: dict[str, Attempt] = {}
    for name, raw, target in _tables(x, y):
        kinds[f"rows, {name}"] = _reads(tally, place / f"rows.{name}", raw, target, rng)
    for ending in ("png", "jpg"):
        kinds[f"images, {ending}"] = _images(tally, place / f"images-{ending}", ending, rng)
    kinds["settings, yaml"] = _yaml(tally, place / "settings.yaml", rng)
    kinds["results, json"] = _results(tally, place / "results.json", rng)
    kinds["decoded data cache"] = _data_cache(tally, place / "decoded.safetensors", rng)
    return kinds


def _tables(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, bytes, str | None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = ["a,b,c,d,y", *(",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True))]
    words = ["size;when;price;y", *(f"{'SML'[n % 3]};2024-01-{1 + n % 28:02d};{n}.5;{'ab'[n % 2]}" for n in range(30))]
    csv, tsv = "\n".join(lines).encode(), "\n".join(words).replace(";", "\t").encode()
    yield from (("csv", csv, "y"), ("csv.gz", gzip.compress(csv, mtime=0), "y"), ("tsv", tsv, "y"))
    for name, save in (("npz", np.savez), ("packed.npz", np.savez_compressed)):
        file = io.BytesIO()
        save(file, X=x, y=y)
        yield name, file.getvalue(), None
    file = io.BytesIO()
    columns = {**{f"x{i}": x[:, i] for i in range(4)}, "word": [f"w{n % 3}" for n in range(len(y))], "y": y}
    pq.write_table(pa.table(columns), file, write_page_checksum=True)
    yield "parquet", file.getvalue(), "y"


def _reads(tally: Tally, path: Path, raw: bytes, target: str | None, rng: np.random.Generator) -> Attempt:
    path.write_bytes(raw)
    kind = f"rows, {path.name.partition('.')[2]}"
    honest = tally.measure(kind, lambda: read_table(path, target))
    right = np.asarray(honest.rows) if target is None else None

    def attempt() -> None:
        path.write_bytes(changed_bytes(raw, rng))
        # Only archives have a checksum: in text, another digit is another number, and that is not to be seen.
        same = (lambda _: True) if right is None else (lambda found: np.array_equal(found.X, right))
        tally.attempt(kind, lambda: read_table(path, target), same)

    return attempt


def _images(tally: Tally, folder: Path, ending: str, rng: np.random.Generator) -> Attempt:
    from PIL import Image

    for number in range(4):
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "ab"[number % 2] / f"{number}.{ending}")
    first = folder / "a" / f"0.{ending}"
    raw, kind = first.read_bytes(), f"images, {ending}"
    tally.measure(kind, lambda: read_table(folder))

    def attempt() -> None:
        first.write_bytes(changed_bytes(raw, rng))
        tally.attempt(kind, lambda: read_table(folder))

    return attempt


def _yaml(tally: Tally, path: Path, rng: np.random.Generator) -> Attempt:
    texts = (b"max_iter: 3\nbetas: [0.1, 0.2]\nname: {a: 1, b: [x, 'y']}\n", b"a: &a [1]\nb: [*a, *a]\n")
    texts += (b"x: 2001-09-09\ny: 1e400\nz: 0x1F\n", b"- - - 1\n- ? a\n  : b\n", b"a: !!python/object:os.system 1\n")
    path.write_bytes(texts[0])
    tally.measure("settings, yaml", lambda: storage.read_yaml(path, "The settings"))

    def attempt() -> None:
        path.write_bytes(changed_bytes(texts[int(rng.integers(0, len(texts)))], rng))
        tally.attempt("settings, yaml", lambda: storage.read_yaml(path, "The settings"))

    return attempt


def _results(tally: Tally, path: Path, rng: np.random.Generator) -> Attempt:
    content = {"accuracy": 0.912, "runs": [1, 2, 3], "name": "digits"}
    storage.write_stamped_json(path, content)
    raw = path.read_bytes()
    tally.measure("results, json", lambda: storage.read_stamped_json(path, "The results"))

    def same(found: Any) -> bool:
        return isinstance(found[0], dict) and (not found[1] or all(found[0].get(n) == v for n, v in content.items()))

    def attempt() -> None:
        path.write_bytes(changed_bytes(raw, rng))
        tally.attempt("results, json", lambda: storage.read_stamped_json(path, "The results"), same)

    return attempt


def _data_cache(tally: Tally, path: Path, rng: np.random.Generator) -> Attempt:
    images = rng.integers(0, 256, (6, 4, 4, 3), np.uint8)
    arrays = {"train_images": images, "test_images": images, "train_labels": np.arange(6), "test_labels": np.arange(6)}
    raw = _with_checksum(arrays)
    path.write_bytes(raw)
    tally.measure("decoded data cache", lambda: mapped(path))

    def read() -> Any:
        try:
            return mapped(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # what `cached` takes for: decode it again

    def attempt() -> None:
        path.write_bytes(changed_bytes(raw, rng))
        same = lambda found: found is None or all(np.array_equal(found[n], a) for n, a in arrays.items())  # noqa: E731
        tally.attempt("decoded data cache", read, same)

    return attempt


def hostile(place: Path, rng: np.random.Generator) -> list[tuple[str, Callable[[], Any]]]:
    """Files that are made to hurt, each with what reads it."""
    place.mkdir(parents=True, exist_ok=True)
    found: list[tuple[str, Callable[[], Any]]] = []

    def table(name: str, raw: bytes, target: str | None = "y") -> None:
        (place / name).write_bytes(raw)
        found.append((name, lambda: read_table(place / name, target)))

    table("bomb.csv.gz", gzip.compress(b"a,y\n" + b"0,0\n" * 10_000_000, 9, mtime=0))
    table("line.csv", b"a,y\n" + b"1" * 3_000_000 + b",0\n")
    table("wide.csv", b",".join(b"c%d" % n for n in range(20_000)) + b",y\n" + b"1," * 20_000 + b"a\n")
    table("zero.csv", b"a,b,y\n1,2,x\0z\n2,3,xz\n3,3,q\n")
    table("quote.csv", b'a,y\n"1,2\n3,4\n')
    table("utf16.csv", "a,y\n1,x\n2,z\n".encode("utf-16")[:-1])
    table("large.csv", b"a,y\n1,9007199254740993\n2,9007199254740992\n")
    table("deep.csv", b"a,y\n" + b"(" * 100_000 + b",1\n")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", _npy((290_000_000, 1), "|u1") + bytes(290_000_000))
        archive.writestr("y.npy", _npy((290_000_000,), "|u1") + bytes(290_000_000))
    table("bomb.npz", file.getvalue(), None)
    for name, shape, dtype in (
        ("header.npz", (10**13,), "<f8"),
        ("negative.npz", (-5, 3), "<f8"),
        ("void.npz", (3,), "|V9"),
    ):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("X.npy", _npy(shape, dtype) + bytes(80))
            archive.writestr("y.npy", _npy((10,), "<i8") + bytes(80))
        table(name, file.getvalue(), None)
    table("objects.npz", _with_objects(), None)
    _parquets(table)
    found += list(_hostile_settings(place))
    (place / "png").mkdir(exist_ok=True)
    (place / "png" / "bomb.png").write_bytes(_large_png(20_000))
    found.append(("bomb.png", lambda: read_table(place / "png")))
    return found


def _npy(shape: tuple[int, ...], dtype: str) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _with_objects() -> bytes:
    file = io.BytesIO()
    np.savez(file, X=np.array([{}], object), y=np.array([1]))
    return file.getvalue()


def _parquets(table: Callable[..., None]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 1000
    for name, columns in {
        "uint64": {"a": pa.array([2**63 + 5] * n, pa.uint64()), "y": pa.array(range(n))},
        "nested": {"a": pa.array([[1]] * n), "y": pa.array(range(n))},
        "decimal": {"a": pa.array(range(n)).cast(pa.decimal128(38, 3)), "y": pa.array(range(n))},
        "nothing": {"a": pa.nulls(n), "y": pa.nulls(n)},
        "zeros": {**{f"c{i}": pa.array(np.zeros(2_000_000)) for i in range(100)}, "y": pa.array(np.zeros(2_000_000))},
    }.items():
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file)
        table(f"{name}.parquet", file.getvalue())


def _hostile_settings(place: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    texts = {
        "deep": b"[" * 100_000,
        "deep-map": b"{a: " * 5_000,
        "dashes": b"- " * 5_000 + b"1",
        "long": b"a: 1\n" * 10**6,
    }
    texts["aliases"] = b"a: &a [x,x,x]\n" + b"".join(b"b%d: &b%d [*a,*a]\n" % (n, n) for n in range(50))
    for name, raw in texts.items():
        path = place / f"{name}.yaml"
        path.write_bytes(raw)
        yield path.name, lambda path=path: storage.read_yaml(path, "The settings")
    nested = json.dumps({"content": 1}).encode().replace(b"1", b"[" * 200_000)
    for name, raw in {"deep.json": nested, "number.json": b'{"content": ' + b"9" * 100_000 + b"}"}.items():
        (place / name).write_bytes(raw)
        yield name, lambda path=place / name: storage.read_stamped_json(path, "The results")


def _large_png(side: int) -> bytes:
    """A black picture of so many pixels a side, in a few hundred kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    line = bytes(1 + side)
    data = b"".join(packer.compress(line) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")

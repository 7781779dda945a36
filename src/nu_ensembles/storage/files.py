"""Atomic files and folders: written aside in the same folder, synced to the disk, then renamed.

A kill, a full disk or a power cut leaves the old content or the new one under the final name; at most a
hidden sibling that ends in `.partial` stays behind, until the next who writes there removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage.leftovers import sweep, tidy
from nu_ensembles.storage.locks import PathLike
from nu_ensembles.storage.partials import partial_file, partial_folder

# Of settings, which people write.
LARGEST_YAML, DEEPEST_YAML = 1 << 20, 50
_STAMP = re.compile(rb',\n"sha256": "[0-9a-f]{64}"\n}\n')


def refuse_existing(path: PathLike) -> None:
    """Raises before hours of work would end in a place that is taken already."""
    if os.path.lexists(path):
        tidy(Path(os.path.abspath(path)))  # whoever was killed just after it was done
        kind = "folder" if os.path.isdir(path) else "file"
        raise InputError(f"The {kind} {os.fspath(path)} exists already: choose another {kind} or remove it.")


def write_bytes(path: PathLike, data: bytes) -> None:
    """Makes `data` the content of `path` in one step: other programs see the old content or the new."""
    path = Path(path)
    with _writing(path), partial_file(path) as (aside, handle):
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(aside, path)
        _sync_folder(path.parent)


def read_bytes(path: PathLike, what: str) -> bytes:
    """The content of `path`; `what` names its role in errors, e.g. "The manifest"."""
    try:
        # Without waiting: opening a pipe that nobody writes to would take for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise DamagedFileError(
                    f"{what} {os.fspath(path)} cannot be read (it is no ordinary file): check the path."
                )
            return file.read()
    except FileNotFoundError as error:
        raise DamagedFileError(
            f"{what} {os.fspath(path)} is missing: check the path or restore the file from a copy."
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, DamagedFileError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise DamagedFileError(
            f"{what} {os.fspath(path)} cannot be read ({reason}): check the path and its permissions."
        ) from error


def write_json(path: PathLike, obj: Any) -> None:
    """Writes JSON that reads back as the same values; `nan` and `inf` keep Python's spelling."""
    write_bytes(path, _json_bytes(obj) + b"\n")


def write_yaml(path: PathLike, obj: Any) -> None:
    """Writes YAML in the order of the mapping's keys; tuples become lists, NumPy scalars plain numbers."""
    import yaml

    text = yaml.safe_dump(json.loads(_json_bytes(obj)), sort_keys=False, allow_unicode=True)
    write_bytes(path, text.encode())


def read_yaml(path: PathLike, what: str) -> Any:
    """Reads a YAML file of plain values; `what` names its role in errors, e.g. "The configuration"."""
    import yaml

    raw = read_bytes(path, what)
    if len(raw) > LARGEST_YAML:
        raise DamagedFileError(f"{what} {os.fspath(path)} is larger than settings ever are: give the right file.")
    try:
        depth = 0
        for token in yaml.scan(raw, yaml.SafeLoader):
            # A few lines of aliases of aliases stand for more values than fit into any memory; we write none.
            if isinstance(token, yaml.AliasToken):
                raise DamagedFileError(f"{what} {os.fspath(path)} refers to values by aliases (*): write them out.")
            # The time to read grows with the square of the depth.
            name = type(token).__name__
            depth += name.endswith(("SequenceStartToken", "MappingStartToken"))
            depth -= name.endswith(("SequenceEndToken", "MappingEndToken")) or name == "BlockEndToken"
            if depth > DEEPEST_YAML:
                raise DamagedFileError(f"{what} {os.fspath(path)} is nested more than {DEEPEST_YAML} deep: correct it.")
        return yaml.safe_load(raw)
    except DamagedFileError:
        raise
    # Beside its own errors, yaml lets through those of the values that it makes: dates and numbers that are none.
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}: {getattr(error, 'problem', None)})" if mark else ""
        raise DamagedFileError(f"{what} {os.fspath(path)} is not valid YAML{where}: correct it.") from error


def read_json(path: PathLike, what: str) -> Any:
    """Reads a JSON file; `what` names its role in errors, e.g. "The metrics file"."""
    return _json_of(read_bytes(path, what), f"{what} {os.fspath(path)}")


def write_sealed_json(path: PathLike, obj: Any) -> None:
    """Writes `{"content": obj, "sha256": …}`, a JSON file that proves its own integrity."""
    head = b'{\n"content": ' + _json_bytes(obj)
    write_bytes(path, head + _seal(head))


def read_sealed_json(path: PathLike, what: str) -> Any:
    """Reads what `write_sealed_json` wrote; a change of any byte, white space included, is an error."""
    raw = read_bytes(path, what)
    head = raw[: -len(_seal(b""))]
    if raw != head + _seal(head):
        raise altered(f"{what} {os.fspath(path)}")
    found = _json_of(raw, f"{what} {os.fspath(path)}")
    if not isinstance(found, dict) or "content" not in found:
        raise altered(f"{what} {os.fspath(path)}")
    return found["content"]


def write_stamped_json(path: PathLike, obj: Mapping[str, Any]) -> None:
    """Writes an object whose last field, `sha256`, covers all that stands before it; others read it like any JSON."""
    write_stamped(path, _json_bytes(obj))


def write_stamped(path: PathLike, raw: bytes) -> None:
    """Writes the JSON text of an object with such a last field added."""
    head = raw.rstrip().removesuffix(b"}").rstrip()
    write_bytes(path, head + _seal(head))


def read_stamped_json(path: PathLike, what: str) -> tuple[Any, bool]:
    """Reads a JSON file, and whether it proves its integrity; one that claims to and does not is an error."""
    raw = read_bytes(path, what)
    head = raw[: -len(_seal(b""))]
    stamped = _STAMP.fullmatch(raw[len(head) :]) is not None
    if stamped and raw != head + _seal(head):
        raise altered(f"{what} {os.fspath(path)}")
    return _json_of(raw, f"{what} {os.fspath(path)}"), stamped


def make_folder(path: PathLike) -> None:
    """Makes a folder, and those around it, where there is none."""
    path = Path(path)
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_file(path: PathLike) -> None:
    """Removes a file, if it is there."""
    path = Path(path)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path} cannot be removed ({error.strerror}): see that its folder is writable, then give the same command "
            "again."
        ) from error


@contextlib.contextmanager
def new_folder(path: PathLike) -> Iterator[Path]:
    """Fills a folder aside and gives it its name only when all went well.

        with new_folder("model") as folder:
            write_json(folder / "manifest.json", manifest)

    `path` must not exist; missing parents are made. After an error or Ctrl-C nothing of it stays.
    """
    path = Path(os.path.abspath(path))
    refuse_existing(path)
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, path.name)
    with contextlib.ExitStack() as stack:
        with _writing(path):
            aside = stack.enter_context(partial_folder(path))
        yield aside
        # Once more, because a rename would quietly replace an empty folder that appeared in the meantime.
        refuse_existing(path)
        with _writing(path):
            _sync_tree(aside)
            os.rename(aside, path)
            _sync_folder(path.parent)


def altered(what: str) -> DamagedFileError:
    """The error for a file whose bytes are not those that were written."""
    return DamagedFileError(
        f"{what} does not match its checksum: it was altered or cut off; restore it from a copy or make it again."
    )


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): choose a place that exists, is writable and has room."
        ) from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` survive a power cut; Windows can open no folder for that."""
    if os.name != "nt":
        _sync(folder)


def _sync_tree(folder: Path) -> None:
    for root, _, files in os.walk(folder):
        for file in files:
            _sync(Path(root, file))
        _sync_folder(Path(root))


def _json_bytes(obj: Any) -> bytes:
    """JSON text of plain values, NumPy and JAX scalars and arrays, and paths."""

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        raise InputError(f"A value of type {type(value).__name__} cannot be saved as JSON: use numbers, text or lists.")

    # Paths may hold undecodable bytes as lone surrogates; json.loads(bytes) reads them the same way.
    return json.dumps(obj, indent=2, ensure_ascii=False, default=plain).encode("utf-8", "surrogatepass")


def _json_of(raw: bytes, what: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(
            f"{what} is not valid JSON (it was cut off or altered): write it again or restore it from a copy."
        ) from error


def _seal(head: bytes) -> bytes:
    """The end of a sealed file: its hash covers all bytes before it, so none can change unseen."""
    return b',\n"sha256": "%s"\n}\n' % hashlib.sha256(head).hexdigest().encode()

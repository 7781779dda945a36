"""Files that are either whole or absent: the folders of trained ensembles, checkpoints and runs.

Everything is written aside under a hidden name, synced and renamed, so a kill at any moment leaves the old
file or the new one, never half of either. Arrays go to safetensors files and the rest to JSON or YAML, with
checksums; nothing is a pickle.
"""

from nu_ensembles.storage.arrays import load_arrays, save_arrays
from nu_ensembles.storage.files import (
    altered,
    make_folder,
    new_folder,
    read_json,
    read_sealed_json,
    read_stamped_json,
    read_yaml,
    refuse_existing,
    remove_file,
    write_bytes,
    write_json,
    write_sealed_json,
    write_stamped,
    write_stamped_json,
    write_yaml,
)
from nu_ensembles.storage.leftovers import sweep
from nu_ensembles.storage.locks import PathLike, alone_in, claimed
from nu_ensembles.storage.trees import flatten, flatten_like, unflatten, unflatten_like

__all__ = [
    "PathLike",
    "alone_in",
    "altered",
    "claimed",
    "flatten",
    "flatten_like",
    "load_arrays",
    "make_folder",
    "new_folder",
    "read_json",
    "read_sealed_json",
    "read_stamped_json",
    "read_yaml",
    "refuse_existing",
    "remove_file",
    "save_arrays",
    "sweep",
    "unflatten",
    "unflatten_like",
    "write_bytes",
    "write_json",
    "write_sealed_json",
    "write_stamped",
    "write_stamped_json",
    "write_yaml",
]

"""What a file from outside may contain: one edge, where whatever is read becomes a checked, typed form.

`fields.py` has the checks and says how a form is declared; a form stands here, or in the room of the class that it is
the form of. Bytes, seals and paths are `storage/`'s business.
"""

from nu_ensembles.contents.classes import check_classes, classes_to_json
from nu_ensembles.contents.fields import (
    Check,
    checksum,
    file_name,
    flag,
    form,
    listing,
    mapping,
    number,
    one_of,
    optional,
    parsed,
    plain,
    stored,
    text,
    unfit,
    whole,
)
from nu_ensembles.contents.manifest import Manifest, array_of, refuse_not_finite

__all__ = [
    "Check",
    "Manifest",
    "array_of",
    "check_classes",
    "checksum",
    "classes_to_json",
    "file_name",
    "flag",
    "form",
    "listing",
    "mapping",
    "number",
    "one_of",
    "optional",
    "parsed",
    "plain",
    "refuse_not_finite",
    "stored",
    "text",
    "unfit",
    "whole",
]

"""Checks of arguments: of single ones, and of all of a function against its signature."""

from nu_ensembles.checks.signatures import check_options, checked
from nu_ensembles.checks.single import (
    check_array,
    check_coefficient,
    check_flag,
    check_name,
    check_numbers,
    check_positive,
    check_whole,
    is_path,
    refuse_foreign,
)
from nu_ensembles.errors import shown

__all__ = [
    "check_array",
    "check_coefficient",
    "check_flag",
    "check_name",
    "check_numbers",
    "check_options",
    "check_positive",
    "check_whole",
    "checked",
    "is_path",
    "refuse_foreign",
    "shown",
]

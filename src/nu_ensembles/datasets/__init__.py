"""Data as plain NumPy arrays: embedded sets, the files that a user brings, and splits by seed."""

from nu_ensembles.datasets.digits import load_digits
from nu_ensembles.datasets.files import Table, read_table
from nu_ensembles.datasets.predictions import write_predictions
from nu_ensembles.datasets.splits import split

__all__ = ["Table", "load_digits", "read_table", "split", "write_predictions"]

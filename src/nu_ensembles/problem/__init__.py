"""What the user hands in, checked once at the edge: rows, labels, weights, seeds, and how rows are scaled."""

from nu_ensembles.problem.columns import column_names, in_order
from nu_ensembles.problem.inputs import Unlabeled, check_labels, check_rows
from nu_ensembles.problem.preprocessing import Standardisation, check_kind, network_rows
from nu_ensembles.problem.problem import Problem, labelled_pair, prepare
from nu_ensembles.problem.seeds import plain_seed, random_key

__all__ = [
    "Problem",
    "Standardisation",
    "Unlabeled",
    "check_kind",
    "check_labels",
    "check_rows",
    "column_names",
    "in_order",
    "labelled_pair",
    "network_rows",
    "plain_seed",
    "prepare",
    "random_key",
]

"""What the user hands in, checked once at the edge: rows, labels, weights, seeds, and how rows are scaled."""

from nu_ensembles.problem.inputs import Unlabeled, check_labels, check_rows, usable_weights
from nu_ensembles.problem.labels import check_targets, labelled_rows, note_gaps, only_labelled
from nu_ensembles.problem.lazily import opened, rows_in_parts
from nu_ensembles.problem.pairs import pairs_of, thrown_together, widened
from nu_ensembles.problem.preprocessing import Standardisation, as_table, check_kind, network_rows
from nu_ensembles.problem.problem import Problem, labelled_pair, prepare
from nu_ensembles.problem.process import refuse_forks
from nu_ensembles.problem.seeds import plain_seed, random_key

__all__ = [
    "Problem",
    "Standardisation",
    "Unlabeled",
    "as_table",
    "check_kind",
    "check_labels",
    "check_rows",
    "check_targets",
    "labelled_pair",
    "labelled_rows",
    "network_rows",
    "note_gaps",
    "only_labelled",
    "opened",
    "pairs_of",
    "plain_seed",
    "prepare",
    "random_key",
    "refuse_forks",
    "rows_in_parts",
    "thrown_together",
    "usable_weights",
    "widened",
]

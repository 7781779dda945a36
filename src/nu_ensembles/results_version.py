"""Which measured results can be compared with each other: those of one version of the results.

Raise the number by one in every commit that changes what a training, a prediction or a score comes to on the same data
and seed: a loss, an optimiser's default, an initialisation, a draw, the choice of beta, the definition of a metric.
`tests/test_golden_training.py` fails then and says how to write its golden file anew. Names, files, messages, pages and
speed leave it alone, as long as the bits stay the same.
"""

RESULTS_VERSION = 4
# What results name as the code that made them. Older files hold twelve digits there, a fingerprint of the source.
RESULTS_CODE = f"results-{RESULTS_VERSION}"

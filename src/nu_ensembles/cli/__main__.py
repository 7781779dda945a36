"""`python -m nu_ensembles.cli`, for an installation whose scripts are not on the path."""

import sys

from nu_ensembles.cli import main

sys.exit(main())

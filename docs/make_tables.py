"""Writes what the documentation shows of the measured results: tables, some pictures, and the README's two tables.

    python docs/make_tables.py                  # writes all of it from the files under results/ (`make tables`)
    python docs/make_tables.py --only studies   # that of one maker: readme, benchmarks, studies, performance, …
    python docs/make_tables.py --check          # writes nothing; exit code 1 if a page is not up to date
    python docs/make_tables.py --measure theory # measures anew what that maker trains or asks for, then writes

What takes long runs with --measure alone: metrics (two minutes on two cores, trains), theory (a minute, trains),
commits (seconds for each commit, of which it asks all). `benchmarks/` and `nu-ensembles study` measure the rest.
"""

import sys

from makers.command import main

if __name__ == "__main__":
    sys.exit(main(description=__doc__))

"""The command line, thin: one file a command, which reads files, calls the library and prints what came back.

Nothing here imports JAX before a command runs, so `--help` answers at once.
"""

from nu_ensembles.cli.application import main

__all__ = ["main"]

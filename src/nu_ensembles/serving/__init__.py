"""A trained ensemble over HTTP: requests checked as files from outside are, answered in batches."""

from nu_ensembles.serving.application import make_application
from nu_ensembles.serving.server import serve

__all__ = ["make_application", "serve"]

"""A report on a user's own rows: how right, how sure, where to look; with labels or without."""

from nu_ensembles.report.own.given import Given, Training
from nu_ensembles.report.own.page import own_page

__all__ = ["Given", "Training", "own_page"]

"""Sphinx configuration: MyST markdown, furo."""

from importlib.metadata import version as installed

project = "nu-ensembles"
author = "The nu-ensembles maintainers"
release = installed("nu-ensembles")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
html_theme = "furo"
html_title = "nu-ensembles"
exclude_patterns = ["_build", "generated"]
autodoc_typehints = "description"
suppress_warnings = ["myst.header"]

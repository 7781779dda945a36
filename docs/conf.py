"""Sphinx configuration: MyST markdown and notebooks, furo. A public name without a described entry stops the build."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).parent))
import api_coverage

project = "nu-ensembles"
author = project_copyright = "The nu-ensembles maintainers"
release = installed("nu-ensembles")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# The gallery's notebooks are run anew where their text changed; one that fails stops the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_in_temp = True
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["front.css"]
html_title = "nu-ensembles"
# Notebooks as they were executed lie beside the build.
exclude_patterns = ["_build", "jupyter_execute", "generated"]
# What scikit-learn adds to every classifier is left to its own pages.
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
aliases = ("AnyMethod", "ArrayLike", "Augmentation", "Images", "LabelScheme", "Values")
autodoc_type_aliases = {name: name for name in aliases}
napoleon_use_ivar = True
strip_signature_backslash = True  # keeps the underscore at the end of `classes_`
default_role = "code"  # docstrings write `name` for code, as the pages do
suppress_warnings = ["myst.header"]


def stop_at_a_lack(app: Sphinx) -> None:
    lacks = api_coverage.lacks()
    if lacks:
        raise ExtensionError("\n".join(lacks))


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", stop_at_a_lack)

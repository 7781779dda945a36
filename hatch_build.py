"""The README as the package index shows it: links and images lead to the repository, whichever is its home.

In the repository they are relative, so that a clone and a fork lead to themselves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!https?://|mailto:|#)([^)\s]+)\)")


def with_absolute_links(text: str, repository: str) -> str:
    """The text, its relative links led to the repository's pages, its relative images to the files themselves."""

    def absolute(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        return f"{mark}{words}({repository}/{'raw' if mark else 'blob'}/main/{path})"

    return RELATIVE.sub(absolute, text)


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

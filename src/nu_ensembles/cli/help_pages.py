"""How `--help` looks: as cyclopts has it, without the column of stars for what is required, which is said in words."""

from __future__ import annotations

from typing import Any


class WithoutStars:
    """A formatter of help; cyclopts' own is imported by who asks for help, and nobody else waits for it."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Shows a panel of commands or options."""
        from cyclopts.help import DefaultFormatter

        columns: Any = _columns if panel.format == "parameter" else None
        DefaultFormatter(column_specs=columns)(console, options, panel)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_description(console, options, description)


def _columns(*about: Any) -> tuple[Any, ...]:
    from cyclopts.help.specs import AsteriskColumn, get_default_parameter_columns

    return tuple(column for column in get_default_parameter_columns(*about) if column is not AsteriskColumn)

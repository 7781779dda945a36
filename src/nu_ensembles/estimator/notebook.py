"""What a notebook shows of a fitted classifier before its arguments: the verdict, and what was trained."""

from __future__ import annotations

from html import escape
from typing import Any

_CARD = (
    "border:1px solid #8884;border-left:4px solid #1f5fa8;border-radius:6px;padding:.6em .9em;margin:.3em 0;"
    "max-width:60em;font-family:system-ui,sans-serif"
)


def outcome_in_html(classifier: Any) -> str:
    """A card with the verdict; in inline styles, since a notebook has no style sheet of ours.

    Args:
      classifier: fitted.
    """
    ensemble = classifier.ensemble_
    notes = ensemble.training
    facts = [f"{ensemble.n_members} members", f"{len(ensemble.classes)} classes"]
    beta = notes.get("hyper_parameters", {}).get("beta")
    facts += [] if beta is None else [f"β = {beta:g}"]
    facts += [f"{notes['n_steps']} steps"] if "n_steps" in notes else []
    rows = [f"{notes[name]:,} {what}" for name, what in _ROWS.items() if name in notes]
    verdict = escape(str(getattr(classifier, "verdict_", "")))
    told = escape(" · ".join([*facts, *rows]))
    return f'<div style="{_CARD}"><p style="margin:0 0 .3em">{verdict}</p><small>{told}</small></div>'


_ROWS = {"n_labelled": "labelled rows", "n_unlabelled": "unlabelled rows"}

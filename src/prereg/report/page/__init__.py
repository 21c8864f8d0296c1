"""The report page: one HTML file for a reviewer, made from the protocol, the tracked tables and an audit.

It says no more than the audit can show: where that is unverified, so is every verdict on the page.
"""

from __future__ import annotations

from prereg.report.page.content import Content, gather
from prereg.report.page.rendering import render
from prereg.report.page.shown import Shown, shown_verdicts

__all__ = ["Content", "Shown", "gather", "render", "shown_verdicts"]

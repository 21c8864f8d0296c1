"""What people and machines are shown: the verdict table, and the tracked tables behind it."""

from __future__ import annotations

from prereg.report.replication_tables import outdated_replication, replication_contents, write_replication
from prereg.report.table import render_verdicts, to_svg, to_text
from prereg.report.tables import report_contents, write_report

__all__ = [
    "outdated_replication",
    "render_verdicts",
    "replication_contents",
    "report_contents",
    "to_svg",
    "to_text",
    "write_replication",
    "write_report",
]

"""Figures, drawn from a study's tracked tables and from nothing else.

A figure is one function from `Tables` to a matplotlib figure and one entry in `FIGURES`, which names the tables and
columns that it reads. matplotlib is needed (``pip install 'prereg-gates[report]'``), and imported only once one is
drawn.
"""

from __future__ import annotations

from prereg.report.figures.drawing import Drawn, draw_figures, write_figures
from prereg.report.figures.registry import FIGURES, FigureSpec, Need
from prereg.report.figures.tables import ReportError, Table, Tables, read_tables

__all__ = [
    "FIGURES", "Drawn", "FigureSpec", "Need", "ReportError", "Table", "Tables", "draw_figures", "read_tables",
    "write_figures",
]  # fmt: skip

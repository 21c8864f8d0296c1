"""From tables to files: every figure that the tables have something for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prereg.report.figures.registry import FIGURES, FigureSpec
from prereg.report.figures.style import require, styled, to_png, to_svg
from prereg.report.figures.tables import Tables
from prereg.tabular import put

__all__ = ["Drawn", "draw_figures", "write_figures"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure as bytes.

    Parameters
    ----------
    name, title, caption
        As in its `FigureSpec`.
    model
        The model that it is about; None for all.
    svg, png
        What its files hold.
    """

    name: str
    title: str
    caption: str
    model: str | None
    svg: bytes
    png: bytes

    def files(self, folder: Path) -> dict[Path, bytes]:
        """Return its files' contents by path.

        A model's figures lie in its own folder; a folder beside the models' would be taken for a model.
        """
        place = folder if self.model is None else folder / self.model / "figures"
        return {place / f"{self.name}.svg": self.svg, place / f"{self.name}.png": self.png}


def draw_figures(tables: Tables, figures: Sequence[FigureSpec] = FIGURES) -> tuple[Drawn, ...]:
    """Draw every figure whose tables are there, study-wide ones first.

    The same tables give the same SVG bytes.

    Raises
    ------
    ReportError
        If matplotlib is not installed, or a table that is there lacks a column or holds no number where one is
        wanted.
    """
    require()
    with styled():
        return tuple(
            _one(spec, part, model)
            for model, part in _parts(tables)
            for spec in figures
            if spec.scope == ("study" if model is None else "model") and spec.drawable(part)
        )


def write_figures(drawn: Sequence[Drawn], folder: Path) -> tuple[Path, ...]:
    """Write figures below a study's reports; files whose bytes would not change are left alone.

    Raises
    ------
    StorageError
        If the folder can't be written.
    """
    written = []
    for figure in drawn:
        for file, content in figure.files(folder).items():
            put(file, content)
            written.append(file)
    return tuple(written)


def _parts(tables: Tables) -> Iterator[tuple[str | None, Tables]]:
    yield None, tables
    for model in tables.models:
        yield model, tables.of(model)


def _one(spec: FigureSpec, tables: Tables, model: str | None) -> Drawn:
    figure = spec.draw(tables)
    about = tables.study if model is None else f"{tables.study} on {model}"
    svg = to_svg(figure, title=f"{spec.title}: {about}", description=spec.caption)
    return Drawn(spec.name, spec.title, spec.caption, model, svg, to_png(figure))

"""How every figure looks: one palette, one type size, one way to become bytes.

Colours are Okabe & Ito's (2008, "Color Universal Design"), told apart by people with any colour vision. No figure
relies on them: markers, line styles and hatches differ too, so that a grey print says the same. Words in an SVG stay
words, to be searched, copied and read aloud: in DejaVu Sans, or else in Verdana, which is as wide.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from prereg.report.figures.tables import ReportError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE", "FAINT", "GREEN", "GREY", "INK", "LINES", "ORANGE", "OUTCOMES", "PANEL", "PURPLE", "SKY", "VERMILLION",
    "WIDTH", "YELLOW", "bare", "canvas", "label", "panel_title", "require", "signed", "styled", "to_png", "to_svg",
]  # fmt: skip

INK, GREY, FAINT, PANEL = "#1b1f24", "#57606a", "#d0d7de", "#e4edf6"
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"

WIDTH = 7.2
"""Width of a figure in inches: two columns of a journal."""

LINES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": ORANGE, "linestyle": (0, (5, 1.5)), "marker": "s"},
    {"color": GREEN, "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "D"},
    {"color": PURPLE, "linestyle": (0, (1, 1)), "marker": "^"},
    {"color": VERMILLION, "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": GREY, "linestyle": (0, (1, 2.2)), "marker": "x"},
)
"""Curves in order: colour, line style and marker all differ."""

OUTCOMES: dict[str, tuple[str, str, bool]] = {
    "supported": (GREEN, "o", True),
    "refuted": (VERMILLION, "s", True),
    "inconclusive": (BLUE, "D", False),
    "invalid": (PURPLE, "X", False),
}
"""Outcome -> colour, marker, filled. Any other is grey, open and a cross-marked circle: nothing was shown."""

# Any: matplotlib types its keys one by one, and each release has others.
_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 6.0,
    "axes.labelsize": 7.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7.0,
    "legend.handlelength": 2.6,
    "text.color": INK,
    "text.parse_math": False,
    "figure.facecolor": "white",
    "figure.dpi": 100,
    "savefig.dpi": 180,
    "svg.fonttype": "none",
    "svg.hashsalt": "prereg",
}


def require() -> None:
    """Demand the library that draws.

    Raises
    ------
    ReportError
        If matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ReportError(
            "figures are drawn by matplotlib, which is not installed",
            remedy="pip install 'prereg-gates[report]'",
        ) from error


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save in the house style, whatever the user's own matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def canvas(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def bare(axes: Axes, *, grid: str = "") -> None:
    """Take away what says nothing: spines that carry no scale, ticks; `grid` may be ``x`` or ``y``."""
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    if grid == "x":
        axes.grid(visible=True, axis="x")
    elif grid == "y":
        axes.grid(visible=True, axis="y")


def panel_title(axes: Axes, letter: str, words: str) -> None:
    """Set a panel's letter, if it has one, and what it shows."""
    # An em space: a run of blanks is one blank in an SVG.
    axes.set_title(f"{letter}\u2003{words}" if letter else words)


def label(name: str) -> str:
    """Return a name out of a table as people read it."""
    return name.replace("_", " ").replace("-", " ") if name.islower() else name.replace("_", " ")


def signed(value: float, digits: int) -> str:
    """Return a number with its sign, a minus that is as wide as a plus."""
    return f"{value:+.{digits}f}".replace("-", "\u2212")


def to_svg(figure: Figure, *, title: str, description: str) -> bytes:
    """Return a figure as SVG; the same figure gives the same bytes, at any time.

    Parameters
    ----------
    figure
        Drawn under `styled`.
    title, description
        What a screen reader says.
    """
    out = io.BytesIO()
    # No creator, no date: a file that says when it was made is another file each time.
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = out.getvalue().decode("utf-8")
    start = text.index("<svg ")
    head = text.index(">", start) + 1
    named = text[start:head].replace("<svg ", '<svg role="img" aria-labelledby="title desc" ', 1)
    words = f'\n <title id="title">{escape(title)}</title>\n <desc id="desc">{escape(description)}</desc>'
    body = text[head:]
    body = body.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    lines = f'<?xml version="1.0" encoding="utf-8"?>\n{named}{words}{body}'.splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode()


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG, without the drawing program's name."""
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()

"""From content to one HTML file: nothing is fetched, nothing is trusted, nothing but its own script runs.

Every text comes through Jinja2's autoescape. The page's policy (CSP) names its one style sheet and its one script by
their digests, forbids every other source, and makes injected markup inert; a browser holds the page to it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from prereg.report.figures.tables import ReportError
from prereg.report.page.content import Content
from prereg.report.rows import MARKS, number_text

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["MAX_PAGE", "render"]

MAX_PAGE = 20_000_000
"""Bytes beyond which a page isn't written: no browser should be asked to open it."""

_SIGNS = {"greater": "> ", "less": "< ", "equivalence": "within ±"}


def render(content: Content) -> bytes:
    """Return the page; the same content gives the same bytes.

    Raises
    ------
    ReportError
        If Jinja2 is not installed, or the page would be too large.
    """
    style, script = _source("report.css"), _source("report.js")
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            content=content,
            report=content.report,
            protocol=content.protocol,
            style=style,
            script=script,
            policy=_policy(style, script),
            marks=MARKS,
            signs=_SIGNS,
        )
    )
    raw = "\n".join(line.rstrip() for line in page.split("\n") if line.strip()).encode() + b"\n"
    if len(raw) > MAX_PAGE:
        raise ReportError(
            f"the page would have {len(raw):,} bytes, more than {MAX_PAGE:,}",
            remedy="make it for fewer models: prereg report --model NAME",
        )
    return raw


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _source(name: str) -> str:
    """Return a style sheet or script as it will stand in the page: the digest is of these very characters."""
    text = (files("prereg.report.page") / "templates" / name).read_text("utf-8")
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ReportError(
            "the page is laid out by Jinja2, which is not installed",
            remedy="pip install 'prereg-gates[report]'",
        ) from error
    environment = Environment(
        loader=PackageLoader("prereg.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "signed": _signed, "slug": _slug, "image": _image, "short": _short, "plain": _plain, "said": _said,
    }  # fmt: skip
    return environment


def _signed(value: float | None, threshold: float | None = None) -> str:
    """Return a number with its sign, with as many digits as show on which side of the threshold it lies."""
    tiny = value is not None and 0.0 < abs(value) < 0.0005
    text = f"{value:+.1e}" if tiny else number_text(value, threshold)
    return text.replace("-", "\u2212")


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}".replace("-", "\u2212")


def _short(digest: str | None) -> str:
    return "none" if not digest else digest[:12]


def _slug(text: str) -> str:
    """Return a text as part of an element's id; distinct texts give distinct ids."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", text):
        return text
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', text).strip('-')}.{_tag(text)}"


def _tag(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _image(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _said(outcome: str) -> str:
    return MARKS[outcome][1] if outcome in MARKS else outcome

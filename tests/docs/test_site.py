"""The site's sources fit together: its pages exist, its links lead somewhere, its reference leaves nothing out."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import prereg.inference
from prereg.protocol import read_protocol
from tests.docs.pages import blocks
from tests.synthetic import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAV = re.findall(r"(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)


def documented(page: str) -> list[str]:
    """Return the objects that a page of the reference shows."""
    return re.findall(r"^::: (\S+)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)


def resolved(name: str) -> Any:
    """Import what a page names.

    Raises
    ------
    AttributeError
        If it isn't there.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def test_every_page_is_in_the_menu_and_the_menu_has_no_other() -> None:
    """`mkdocs build --strict` (make docs) would say so too, where mkdocs is installed."""
    assert sorted(NAV) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_and_what_it_includes_are_there(page: Path) -> None:
    """A page links to pages beside it, and includes files of this repository."""
    text = page.read_text("utf-8")
    for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert (page.parent / link).is_file(), link
    for included in re.findall(r'^--8<-- "(.*)"$', text, re.MULTILINE):
        assert (REPOSITORY / included).is_file(), included


@pytest.mark.parametrize("name", [name for page in NAV for name in documented(page)])
def test_what_the_reference_shows_is_there_and_documented(name: str) -> None:
    """An object of that name, with a docstring or, for a type, a comment beside it."""
    found = resolved(name)
    assert inspect.getdoc(found), name


def test_the_reference_of_inference_is_complete() -> None:
    """Each public name once, in some group."""
    shown = [name.rpartition(".")[2] for name in documented("reference/inference.md")]
    assert sorted(shown[1:]) == sorted(prereg.inference.__all__)


def test_every_table_of_a_protocol_is_in_the_reference() -> None:
    """Whatever can stand in protocol.toml is explained: all closed tables that the reader knows."""
    base: Any = resolved("prereg.protocol.base.Closed")
    tables = {
        f"{t.__module__}.{t.__name__}" for t in _below(base) if t.__module__.startswith("prereg.protocol")
    }
    assert tables <= set(documented("reference/protocol.md"))


def _below(base: Any) -> list[Any]:
    return [found for one in base.__subclasses__() for found in (one, *_below(one))]


def test_the_looks_that_the_statistics_show_can_be_promised(tmp_path: Path) -> None:
    """The one table that the page shows is read as a part of a protocol."""
    shown = [
        block.text
        for block in blocks((DOCS / "statistics.md").read_text("utf-8"))
        if block.language == "toml"
    ]
    assert len(shown) == 1
    sample = (REPOSITORY / "tests" / "data" / "protocol.toml").read_text("utf-8")
    (tmp_path / "protocol.toml").write_text(f"{sample}\n{shown[0]}", "utf-8")
    looks = read_protocol(tmp_path).protocol.inference.looks
    assert looks is not None
    assert (looks.planned, looks.spending) == (3, "obrien_fleming")


def test_a_name_that_is_gone_would_be_found() -> None:
    """The check above can fail."""
    with pytest.raises(AttributeError):
        resolved("prereg.inference.no_such_thing")

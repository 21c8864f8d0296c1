"""The report page in a browser: it works, asks for nothing, obeys its own policy, and can be used by everyone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prereg.report.page import gather, render
from tests.report.page.audits import FOLDER, REPORTS, ROOT, own_audit


@pytest.fixture
def page(browser: Any, own_page: Path) -> Iterator[Any]:
    """Open the page in a context of its own; any console message, error or request fails the test."""
    yield from _opened(browser, own_page)


def _opened(browser: Any, file: Path, **options: Any) -> Iterator[Any]:
    context = browser.new_context(accept_downloads=True, **options)
    opened = context.new_page()
    heard: list[str] = []
    opened.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: heard.append(str(error)))
    opened.on("request", lambda request: heard.append(request.url))
    opened.goto(file.as_uri())
    yield opened
    assert [told for told in heard if told != file.as_uri() and not told.startswith("data:")] == []
    context.close()


def table(page: Any, number: int = 0) -> Any:
    box = page.locator("details.prompts").nth(number)
    box.locator("summary").click()
    box.locator("tbody tr").first.wait_for()
    return box


def column(box: Any, number: int) -> list[str]:
    return box.locator(f"tbody tr td:nth-child({number})").all_inner_texts()


def test_it_opens_from_a_file_and_asks_for_nothing(page: Any) -> None:
    """The title is the study's, and every figure is drawn."""
    assert page.title() == "How residual-stream updates travel through depth: report"
    page.evaluate("() => { for (const i of document.images) i.loading = 'eager'; }")
    page.wait_for_function("[...document.images].every((i) => i.complete)")
    widths = page.evaluate("[...document.images].map((i) => i.naturalWidth)")
    assert len(widths) >= 9
    assert min(widths) > 0


def test_a_column_sorts_both_ways_and_says_so(page: Any) -> None:
    """A click sorts upward, a second one downward; aria-sort stands on that column alone."""
    box = table(page)
    box.get_by_role("button", name="Show all").click()
    button = box.locator("thead button").nth(3)
    for direction, reverse in (("ascending", False), ("descending", True)):
        button.click()
        found = [float(text.replace("\u2212", "-")) for text in column(box, 4) if text]
        assert found == sorted(found, reverse=reverse)
        assert box.locator("th[aria-sort]").count() == 1
        assert box.locator("th").nth(3).get_attribute("aria-sort") == direction


def test_a_filter_narrows_and_counts(page: Any) -> None:
    """Text and relation narrow together; the count is announced."""
    box = table(page, 3)
    box.get_by_label("Relation").select_option("currency")
    assert set(column(box, 3)) == {"currency"}
    box.get_by_label("Filter").fill("JAPAN")
    assert all("Japan" in text for text in column(box, 1))
    number = len(column(box, 1))
    assert box.get_by_role("status").inner_text() == f"{number} of {number} shown, 365 in all"
    box.get_by_label("Filter").fill("no such subject")
    assert column(box, 1) == []


def test_rows_are_drawn_as_they_are_wanted(page: Any) -> None:
    """A closed table has no rows; an open one a hundred, and all of them on demand."""
    assert page.locator("table.data tbody tr").count() == 0
    box = table(page, 3)
    assert len(column(box, 1)) == 100
    box.get_by_role("button", name="Show all 365").click()
    assert len(column(box, 1)) == 365
    assert not box.locator(".more").is_visible()


def test_the_whole_table_can_be_downloaded(page: Any) -> None:
    """The CSV has a heading and every prompt, whatever is filtered."""
    box = table(page, 3)
    box.get_by_label("Filter").fill("Japan")
    with page.expect_download() as waiting:
        box.get_by_role("link", name="Download CSV").click()
    lines = Path(waiting.value.path()).read_text("utf-8").splitlines()
    assert waiting.value.suggested_filename.endswith(".csv")
    assert len(lines) == 366
    assert lines[0].startswith("prompt,subject,relation,R2 ")


def test_the_theme_is_kept(page: Any) -> None:
    """System, light, dark: the choice changes the paper and outlives a reload."""
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    assert page.evaluate(paper) == "rgb(15, 19, 25)"
    page.reload()
    assert page.evaluate(paper) == "rgb(15, 19, 25)"


def test_a_digest_is_copied(browser: Any, own_page: Path) -> None:
    """The clipboard holds the whole digest, and the button says that it does."""
    for page in _opened(browser, own_page, permissions=["clipboard-read", "clipboard-write"]):
        button = page.locator("#provenance button.copy").first
        button.click()
        page.wait_for_function("document.getElementById('told').textContent === 'copied'")
        assert page.evaluate("navigator.clipboard.readText()") == "a" * 64


def test_the_keyboard_reaches_the_verdicts_first(page: Any) -> None:
    """The first stop is a link past the head of the page; a table is opened without a mouse."""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdicts"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    page.locator("details.prompts summary").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('table.data tbody tr').length === 100")


def test_it_prints_everything_but_the_tools(page: Any) -> None:
    """On paper what was closed is open, and closes again."""
    closed = page.locator("details:not([open])").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == page.locator("details.prompts").count()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_no_fault(browser: Any, own_page: Path, axe: str, scheme: str, width: int) -> None:
    """Every rule of axe-core holds, with everything open, in both themes, wide and narrow."""
    # The page's own policy lets no script in, so for this one test the browser leaves it aside.
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    page = context.new_page()
    page.goto(own_page.as_uri())
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    page.wait_for_function("document.querySelectorAll('table.data tbody tr').length === 400")
    page.add_script_tag(content=axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(v["id"], v["nodes"][0]["html"][:120], len(v["nodes"])) for v in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_foreign_text_stays_text(browser: Any, tmp_path: Path) -> None:
    """Markup in a claim, a label or a finding is shown, and nothing of it runs."""
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    report = own_audit()
    thresholds = (
        dataclasses.replace(report.thresholds[0], claim=evil, rationale=evil),
        *report.thresholds[1:],
    )
    findings = tuple(dataclasses.replace(f, message=evil) for f in report.findings)
    report = dataclasses.replace(report, thresholds=thresholds, findings=findings)
    file = tmp_path / "report.html"
    file.write_bytes(render(gather(FOLDER, REPORTS, report, root=ROOT)))
    for page in _opened(browser, file):
        assert page.locator(".claim").first.inner_text() == evil
        assert page.title().endswith(": report")


def test_the_policy_holds_against_injected_script(browser: Any, own_page: Path) -> None:
    """Even markup that got past the escaping would not run: the browser refuses it."""
    raw = own_page.read_text("utf-8")
    evil = "<img src='x' onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    file = own_page.with_name("injected.html")
    file.write_text(raw.replace("<main", f"{evil}<main", 1), "utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.title().endswith(": report")
    context.close()


@pytest.mark.parametrize("status", ["unverified", "violation"])
def test_nothing_is_green_where_the_audit_is_not(browser: Any, tmp_path: Path, status: Any) -> None:
    """No verdict on the page has the colour, or the class, of a supported one."""
    file = tmp_path / "report.html"
    file.write_bytes(render(gather(FOLDER, REPORTS, own_audit(status), root=ROOT)))
    for page in _opened(browser, file):
        assert page.locator(".v-supported, .v-refuted").count() == 0
        assert page.locator(".verdict").count() > 0
        green = "[...document.querySelectorAll('*')].filter((e) => getComputedStyle(e).color === 'rgb(6, 107, 78)')"
        assert page.evaluate(f"{green}.length") == 0

"""Tests in a real browser. They run by `make browser` and by nothing else: no other run may need a browser.

``PREREG_AXE`` names axe-core's script, ``PREREG_CHROMIUM`` the browser. Without the first nothing here is collected,
and pytest says that it ran no tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

AXE = os.environ.get("PREREG_AXE")
collect_ignore_glob = [] if AXE else ["test_*.py"]


@pytest.fixture(scope="session")
def axe() -> str:
    """Return axe-core's source."""
    return Path(str(AXE)).read_text("utf-8")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start the browser, once."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("PREREG_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        # A container has no user namespaces for the sandbox; the page under test is our own.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def own_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of the project's own study, as a verified audit has it."""
    from prereg.report.figures import draw_figures, read_tables
    from prereg.report.page import gather, render
    from tests.report.page.audits import FOLDER, REPORTS, ROOT, own_audit

    figures = draw_figures(read_tables(REPORTS))
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_bytes(render(gather(FOLDER, REPORTS, own_audit(), figures, root=ROOT)))
    return file

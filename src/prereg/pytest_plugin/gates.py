"""Gates: tests that take the `study` fixture, and what their outcomes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError
from prereg.pytest_plugin.state import ASKED, DEFAULT_MODEL, models, open_study, study_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prereg.study import Study, Verdict


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask every gate once for each model."""
    if "study" in metafunc.fixturenames:
        metafunc.parametrize("study", models(metafunc.config), indirect=True)


@pytest.fixture
def study(request: pytest.FixtureRequest) -> Study:
    """Return the study whose protocol.toml is nearest above the gate, on the model under test.

    `study.verdict("H1")` answers a hypothesis, capturing and measuring first where evidence is missing.
    """
    folder = study_folder(request.config, request.path)
    opened = open_study(request.config, folder, getattr(request, "param", DEFAULT_MODEL))
    asked: list[Verdict] = []
    request.node.stash[ASKED] = asked
    return opened.watched(asked.append)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse gates whose `study` fixture is not the plugin's: an answer from elsewhere is no answer."""
    for item in items:
        info = getattr(item, "_fixtureinfo", None)
        if info is None or "study" not in info.name2fixturedefs:
            continue
        for definition in info.name2fixturedefs["study"]:
            function = definition.func
            if function.__module__ != __name__:
                raise pytest.UsageError(
                    f"{item.nodeid}: its `study` fixture is defined in {function.__module__}, not in prereg: "
                    "a verdict from there would mean nothing. Rename that fixture."
                )


# Outermost, so that marks such as xfail have had their say before the report is read.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Turn each gate's outcome into what its verdict says, no more and no less."""
    report: pytest.TestReport = yield
    asked = item.stash.get(ASKED, None)
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, PreregError):
        report.longrepr = str(error)
    if asked is None or report.when != "call" or report.skipped or hasattr(report, "wasxfail"):
        return report
    # JUnit XML takes an item's properties when it is torn down.
    item.user_properties.extend(pair for verdict in asked for pair in _properties(verdict))
    report.prereg = [verdict.as_record() for verdict in asked]  # type: ignore[attr-defined]
    unsupported = [verdict for verdict in asked if not verdict.supported]
    if report.passed and (not asked or unsupported):
        report.outcome = "failed"
        report.longrepr = (
            "\n".join(v.explain() for v in unsupported)
            if asked
            else "this gate passed without asking for a verdict: it shows nothing"
        )
        report.prereg_word = "not tested" if not asked else unsupported[0].outcome.value  # type: ignore[attr-defined]
    elif report.failed and unsupported and isinstance(error, AssertionError):
        report.longrepr = "\n".join(v.explain() for v in unsupported)
        report.prereg_word = unsupported[0].outcome.value  # type: ignore[attr-defined]
    elif report.passed:
        report.prereg_word = asked[0].outcome.value  # type: ignore[attr-defined]
    return report


def _properties(verdict: Verdict) -> Iterator[tuple[str, object]]:
    record = verdict.as_record()
    for name in (
        "study", "hypothesis", "model", "outcome", "estimate", "low", "high", "level", "threshold", "direction",
        "units", "n_subjects", "n_prompts", "protocol_digest",
    ):  # fmt: skip
        yield f"prereg.{name}", record[name]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show a gate's verdict as the word for it."""
    word = getattr(report, "prereg_word", None)
    if word is None or report.when != "call":
        return None
    letters = {"supported": ".", "refuted": "R", "inconclusive": "I", "invalid": "!"}
    return report.outcome, letters.get(word, "?"), word.upper()

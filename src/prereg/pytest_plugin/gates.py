"""Gates: tests that take the `study` fixture, and what their outcomes mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError, StudyError
from prereg.pytest_plugin.state import ASKED, PROMISES, models, open_study, study_folder

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
    opened = open_study(request.config, folder, _model(request))
    asked: list[Verdict] = []
    request.node.stash[ASKED] = asked
    request.node.stash[PROMISES] = opened.hypotheses
    return opened.watched(asked.append)


def _model(request: pytest.FixtureRequest) -> str:
    named: str | None = getattr(request, "param", None)
    if named is not None:
        return named
    asked = models(request.config)
    if len(asked) > 1:
        raise StudyError(
            f"{request.node.nodeid} asks for its study by name, which can only be had on one model, not on "
            f"{', '.join(asked)}",
            remedy="take the `study` fixture as an argument of the gate",
        )
    return asked[0]


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
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, PreregError):
        report.longrepr = str(error)
    if "study" not in getattr(item, "fixturenames", ()) and ASKED not in item.stash:
        return report
    report.prereg_gate = True  # type: ignore[attr-defined]
    asked = item.stash.get(ASKED, [])
    if report.when != "call" or (report.skipped and not asked):
        return report
    # JUnit XML takes an item's properties when it is torn down.
    item.user_properties.extend(pair for verdict in asked for pair in _properties(verdict))
    report.prereg = [verdict.as_record() for verdict in asked]  # type: ignore[attr-defined]
    unsupported = [verdict for verdict in asked if not _supported(verdict)]
    fault = _fault(item, asked)
    if fault is not None and not (report.failed and not isinstance(error, AssertionError)):
        _fail(report, fault, "invalid")
    elif unsupported and (not report.failed or isinstance(error, AssertionError)):
        # Also where the gate then skipped itself or was expected to fail: an answer that was asked for stands.
        _fail(report, "\n".join(v.explain() for v in unsupported), unsupported[0].outcome.value)
    elif report.passed:
        report.prereg_word = "supported"  # type: ignore[attr-defined]
    return report


def _supported(verdict: Verdict) -> bool:
    # Not `verdict.supported`: a gate that patches the property would be asked about itself.
    return verdict.outcome == "supported"


def _fail(report: pytest.TestReport, text: str, word: str) -> None:
    report.outcome = "failed"
    report.longrepr = text
    report.prereg_word = word  # type: ignore[attr-defined]
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _fault(item: pytest.Item, asked: list[Verdict]) -> str | None:
    """Say why what the gate asked is not the question it is named after; None where it is."""
    name = getattr(item, "originalname", None) or item.name
    promises = item.stash.get(PROMISES, ())
    mine = [p for p in promises if f"{name}_".startswith(f"test_{re.sub('[^a-z0-9]', '_', p.lower())}_")]
    if not mine:
        return (
            f"{item.nodeid}: a gate is named after the hypothesis it asks, test_<id>_<what it says>, with an id "
            f"among {', '.join(promises)}"
        )
    wanted = max(mine, key=len)
    if not asked:
        return f"{item.nodeid}: this gate ended without asking for the verdict of {wanted}: it shows nothing"
    others = sorted({verdict.hypothesis for verdict in asked} - {wanted})
    if others:
        return f"{item.nodeid}: a gate of {wanted} may not answer for {', '.join(others)}"
    return None


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

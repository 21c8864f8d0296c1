"""Gates: tests that take the `study` fixture, and what their outcomes mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError, StudyError
from prereg.pytest_plugin.ledger import Answer
from prereg.pytest_plugin.refusals import foreign_study, is_worker, rerun_marks, session_refusals
from prereg.pytest_plugin.state import (
    INTEGRITY,
    LEDGER,
    hypothesis_of,
    models,
    nearest_protocol,
    open_study,
    promised,
    require_untouched,
    study_folder,
    study_key,
)
from prereg.pytest_plugin.words import LETTERS, Said, properties, said, worst

if TYPE_CHECKING:
    from prereg.study import Study, Verdict


@dataclass(slots=True)
class _Heard:
    """What one gate was told, written down in the moment that it was told."""

    folder: Path
    model: str
    promises: tuple[str, ...]
    answers: list[tuple[Mapping[str, Any], Said]] = field(default_factory=list)


_HEARD = pytest.StashKey[_Heard]()
_REFUSED = pytest.StashKey[str]()
_GATE = pytest.StashKey[bool]()
_SAYS_NO = (AssertionError, pytest.fail.Exception)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask every gate once for each model."""
    if "study" not in metafunc.fixturenames:
        return
    definitions = metafunc.definition._fixtureinfo.name2fixturedefs.get("study", ())
    if definitions and definitions[-1].func is _own:
        metafunc.parametrize("study", models(metafunc.config), indirect=True)


@pytest.fixture
def study(request: pytest.FixtureRequest) -> Iterator[Study]:
    """Return the study whose protocol.toml is nearest above the gate, on the model under test.

    `study.verdict("H1")` answers a hypothesis, capturing and measuring first where evidence is missing.
    """
    config, stash = request.config, request.node.stash
    if _HEARD in stash:
        raise StudyError(
            f"{request.node.nodeid} was run again: the same evidence gives the same verdict, and a gate is asked once",
            remedy="run gates without a plugin that repeats failed tests",
        )
    folder, model = study_folder(config, request.path), _model(request)
    opened = open_study(config, folder, model)
    heard = stash[_HEARD] = _Heard(folder, model, opened.hypotheses)

    def hear(verdict: Verdict) -> None:
        # Here, not later: a patch may be gone again, and a verdict changed, by the time that the gate ends.
        record = verdict.as_record()
        heard.answers.append((record, said(record, verdict.explain())))
        config.stash[INTEGRITY].faults(libraries=True)

    yield opened.watched(hear)
    require_untouched(config)


_own = study._get_wrapped_function()


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


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note a gate: a test that takes `study`, or that lies in a study's folder and is named after a hypothesis."""
    inside = nearest_protocol(item.config, item.path)
    takes = "study" in getattr(item, "fixturenames", ())
    if takes and (inside is not None or item.config.getoption("study") or foreign_study(item, _own) is None):
        item.stash[_GATE] = True
    elif inside is not None:
        name = getattr(item, "originalname", None) or item.name
        item.stash[_GATE] = hypothesis_of(name, promised(item.config, inside)) is not None
    if item.stash.get(_GATE, False):
        # Until it is deselected in sight, or is among those that will run.
        item.config.stash[LEDGER].dropped.add(item.nodeid)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Strike out a gate that was deselected in sight."""
    for item in items:
        item.config.stash[LEDGER].dropped.discard(item.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse gates that could be answered by something else than their verdict, before any runs.

    Raises
    ------
    pytest.UsageError
        With the reason; under xdist the gate itself fails with it.
    """
    ledger = session.config.stash[LEDGER]
    gates = [item for item in session.items if item.stash.get(_GATE, False)]
    ledger.selected.update(item.nodeid for item in gates)
    ledger.dropped -= ledger.selected
    general = session_refusals(session.config) if gates else []
    for item in gates:
        reason = general[0] if general else _refusal(item)
        if reason is None:
            continue
        if not is_worker(session.config):
            raise pytest.UsageError(reason)
        item.stash[_REFUSED] = reason


def _refusal(item: pytest.Item) -> str | None:
    return foreign_study(item, _own) or rerun_marks(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a gate that was refused where no usage error can be raised: in a worker of xdist."""
    if _REFUSED in item.stash:
        raise StudyError(item.stash[_REFUSED])


# Outermost, so that marks such as xfail have had their say before the report is read.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Turn each gate's outcome into what its verdict says, no more and no less."""
    report: pytest.TestReport = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, PreregError):
        report.longrepr = str(error)
    if not item.stash.get(_GATE, False) and _HEARD not in item.stash:
        return report
    heard = item.stash.get(_HEARD, None)
    if report.when == "call":
        _speak(item, report, heard, broken=report.failed and not isinstance(error, _SAYS_NO))
    if report.when == "call" or not report.passed:
        _write_down(item, report, heard)
    return report


def _speak(item: pytest.Item, report: pytest.TestReport, heard: _Heard | None, *, broken: bool) -> None:
    """Give the report the outcome of what was heard; one that broke for another reason stays broken."""
    answers = [] if heard is None else heard.answers
    # JUnit XML takes an item's properties when it is torn down.
    item.user_properties.extend(pair for record, _ in answers for pair in properties(record))
    integrity = item.config.stash[INTEGRITY]
    integrity.faults(libraries=True)
    altered = integrity.explain()
    if altered is not None:
        _set(item, report, Said("failed", "invalid", altered))
    elif broken or (report.skipped and not answers):
        return
    elif (fault := _fault(item, heard)) is not None:
        _set(item, report, Said("failed", "invalid", fault))
    else:
        outcome = worst([one for _, one in answers])
        if outcome.outcome == "passed" and not report.passed:
            # Whatever else the gate asserts: that it failed there is no word on its verdict.
            return
        # Also where the gate then skipped itself or was expected to fail: an answer that was asked for stands.
        if not (outcome.outcome == "skipped" and report.failed):
            _set(item, report, outcome)


def _set(item: pytest.Item, report: pytest.TestReport, outcome: Said) -> None:
    report.outcome = outcome.outcome
    report.prereg_word = outcome.word  # type: ignore[attr-defined]
    if outcome.outcome == "skipped":
        file, line, _ = item.location
        report.longrepr = (str(item.config.rootpath / file), (line or 0) + 1, outcome.text)
    elif outcome.outcome == "failed":
        report.longrepr = outcome.text
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _write_down(item: pytest.Item, report: pytest.TestReport, heard: _Heard | None) -> None:
    """Enter what came of a gate into the ledger, and into the report for xdist's controller."""
    ledger = item.config.stash[LEDGER]
    before = ledger.answers.get(item.nodeid)
    if before is not None and report.when == "teardown":
        # A gate that breaks while it is cleared away has no word any more; what it heard stays on record.
        answer = Answer(report.outcome, None, before.records, before.study)
    else:
        answer = Answer(
            report.outcome,
            getattr(report, "prereg_word", None),
            () if heard is None else tuple(record for record, _ in heard.answers),
            None if heard is None else study_key(heard.folder, heard.model),
        )
    ledger.answers[item.nodeid] = answer
    report.prereg_gate = answer.as_plain()  # type: ignore[attr-defined]


def _fault(item: pytest.Item, heard: _Heard | None) -> str | None:
    """Say why what the gate asked is not the question it is named after; None where it is."""
    name = getattr(item, "originalname", None) or item.name
    if heard is not None:
        promises = heard.promises
    else:
        inside = nearest_protocol(item.config, item.path)
        promises = () if inside is None else promised(item.config, inside)
    wanted = hypothesis_of(name, promises)
    if wanted is None:
        return (
            f"{item.nodeid}: a gate is named after the hypothesis it asks, test_<id>_<what it says>, with an id "
            f"among {', '.join(promises) or 'those of its protocol'}"
        )
    if heard is None or not heard.answers:
        return (
            f"{item.nodeid}: this gate ended without asking for the verdict of {wanted}: it shows nothing. "
            f'A gate takes the `study` fixture and asks study.verdict("{wanted}"); any other test needs another name.'
        )
    others = sorted({str(record["hypothesis"]) for record, _ in heard.answers} - {wanted})
    if others:
        return f"{item.nodeid}: a gate of {wanted} may not answer for {', '.join(others)}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show a gate's verdict as the word for it."""
    word = getattr(report, "prereg_word", None)
    if word is None or report.when != "call":
        return None
    return report.outcome, LETTERS.get(word, "?"), word.upper()

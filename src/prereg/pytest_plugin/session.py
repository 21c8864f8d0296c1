"""A session from its header to its exit code and verdict table; under xdist, in the controller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from prereg.errors import PreregError
from prereg.pytest_plugin.closing import Closed, close, together
from prereg.pytest_plugin.ledger import Answer
from prereg.pytest_plugin.refusals import hooks_removed, is_worker, session_refusals
from prereg.pytest_plugin.state import (
    INTEGRITY,
    LEDGER,
    PLUGINS,
    holds_gates,
    models,
    open_study,
    selects_by_hand,
    studies_under,
)
from prereg.pytest_plugin.words import ANSWERED

__all__ = ["Accounting", "Seal"]


class Accounting:
    """Keeps what the gates answered, and which tests broke; one for each session.

    Parameters
    ----------
    config
        The session's configuration.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.ledger = config.stash[LEDGER]
        self.reported: dict[str, str] = {}
        """Node id of every gate -> its outcome as pytest heard it last."""
        self.broken: list[str] = []
        self.closed: list[Closed] = []
        self.replicated: dict[str, str | None] = {}
        """Folder of each study -> what became of the tables over several models."""
        self.faults: list[str] = []
        self.failed = False
        self.empty = False

    def pytest_report_header(self) -> list[str]:
        """Name study, model, registration and sample before anything runs."""
        lines = []
        for folder in studies_under(self.config):
            for model in models(self.config):
                try:
                    lines += open_study(self.config, folder, model).header()
                except PreregError as error:
                    lines.append(f"prereg: {error}")
        return lines

    def pytest_sessionstart(self) -> None:
        """Before xdist hands out gates, refuse what can't be refused there, and prepare evidence once and in sight.

        Raises
        ------
        pytest.UsageError
            If gates may not be asked in this way.
        """
        if not getattr(self.config.option, "numprocesses", None) or is_worker(self.config):
            return
        folders = studies_under(self.config)
        refused = session_refusals(self.config) if folders else []
        if refused:
            raise pytest.UsageError(refused[0])
        if self.config.option.collectonly:
            return
        with contextlib.suppress(PreregError):  # the gate that needs it will say what is wrong
            for folder in folders:
                for model in models(self.config):
                    open_study(self.config, folder, model).prepare()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in the ledger of one of xdist's workers."""
        written = getattr(node, "workeroutput", None) or {}
        if "prereg" in written:
            self.ledger.merge(written["prereg"])

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the terminal and the exit code need."""
        plain = getattr(report, "prereg_gate", None)
        if plain is not None:
            # A worker that crashes later leaves no ledger; what it reported until then counts.
            self.ledger.answers.setdefault(report.nodeid, Answer.from_plain(plain))
        if report.when == "call" or not report.passed:
            self.reported[report.nodeid] = report.outcome
        if report.failed and getattr(report, "prereg_word", None) not in ("refuted", "inconclusive"):
            self.broken.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that can't be collected as a fault of the harness, and one that skips itself as not tested."""
        if report.failed:
            self.broken.append(report.nodeid)
        elif report.skipped and holds_gates(self.config, self.config.rootpath / report.nodeid):
            self.ledger.selected.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let the exit code say what `--gate-exit` promises, from the verdicts themselves.

        ``claims``: 0 only if every hypothesis, or every gate that the command line itself selected, was asked and may
        be claimed. ``harness``: a gate that was answered is a success, whatever the answer; one that was not is a
        failure, as is a run cut short.
        """
        if self.config.option.collectonly:
            return
        integrity = self.config.stash[INTEGRITY]
        if self.ledger.selected or self.ledger.answers:
            integrity.faults(libraries=True)
            self.ledger.faults += [
                *filter(None, [integrity.explain()]),
                *hooks_removed(self.config, self.config.stash[PLUGINS]),
            ]
        if is_worker(self.config):
            self.config.workeroutput["prereg"] = self.ledger.as_plain()  # type: ignore[attr-defined]
            return
        self._close()
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not self._concerned():
            return
        harness = self.config.getoption("gate_exit") == "harness"
        if not (self._answered() if harness else self._claimed()):
            self.failed = True
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif harness and not self.broken and not session.shouldfail and not session.shouldstop:
            session.exitstatus = pytest.ExitCode.OK

    def _close(self) -> None:
        ledger = self.ledger
        self.empty = not self._concerned() and self._asks_for_gates()
        if not self._concerned():
            return
        self.faults = [*ledger.faults, *self._rewritten()]
        self.faults += [
            f"{nodeid} was taken away by a hook without being deselected" for nodeid in sorted(ledger.dropped)
        ]
        refused = any(
            a.word is None and a.outcome == "failed" and not a.records for a in ledger.answers.values()
        )
        invalid = any(a.word == "invalid" and _is_answered_otherwise(a) for a in ledger.answers.values())
        self.closed = close(self.config, ledger.answers, sound=not (self.faults or refused or invalid))
        self.faults += [fault for closed in self.closed for fault in closed.faults]
        if not self.faults:
            self.replicated = {folder: together(group) for folder, group in _by_study(self.closed).items()}

    def _concerned(self) -> bool:
        """Tell whether there were gates, or should have been."""
        ledger = self.ledger
        return bool(ledger.selected or ledger.answers or ledger.dropped) or self.empty

    def _asks_for_gates(self) -> bool:
        """Tell whether this session was to run a study's gates: then none at all is no success."""
        return bool(studies_under(self.config)) and not selects_by_hand(self.config)

    def _rewritten(self) -> Iterator[str]:
        """Find gates whose report says something else than what came of them."""
        for nodeid, outcome in sorted(self.reported.items()):
            answer = self.ledger.answers.get(nodeid)
            if answer is not None and answer.outcome != outcome:
                came = answer.word or answer.outcome
                yield f"{nodeid} was reported {outcome} by a hook or plugin; what came of it is {came}"
            elif answer is None and nodeid in self.ledger.selected and outcome == "passed":
                yield f"{nodeid} was reported passed by a hook or plugin; it was not run"

    def _claimed(self) -> bool:
        return self._complete(withdrawn=True) and all(
            a.word == "supported" and all(r["outcome"] == "supported" for r in a.records)
            for a in self.ledger.answers.values()
        )

    def _answered(self) -> bool:
        return self._complete(withdrawn=False) and all(
            a.word in ANSWERED for a in self.ledger.answers.values()
        )

    def _complete(self, *, withdrawn: bool) -> bool:
        """Tell whether every gate that should have been asked got its verdict, and nothing speaks against them.

        Gates may be left out on the command line alone: what a configuration file or the environment leaves out is
        missed. A hypothesis that was withdrawn after the freeze is missed among claims, not by the harness.
        """
        ledger = self.ledger
        if not selects_by_hand(self.config):
            for study in (closed.study for closed in self.closed):
                asked = {
                    r["hypothesis"] for closed in self.closed if closed.study is study for r in closed.records
                }
                wanted = () if study is None else study.hypotheses if withdrawn else study.protocol.hypotheses
                if not asked >= set(wanted):
                    return False
        return (
            bool(ledger.answers)
            and ledger.selected <= set(ledger.answers)
            and all(a.records for a in ledger.answers.values())
            and not self.faults
            and not any(closed.failures for closed in self.closed)
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the verdict table of each study, and what speaks against it."""
        if not (self.closed or self.faults or self.empty):
            return
        if self.config.get_verbosity() >= -1:
            terminalreporter.section("verdicts", sep="=")
            for folder, group in _by_study(self.closed).items():
                _tell(terminalreporter, group, self.replicated.get(folder))
            if self.empty:
                terminalreporter.write_line("no gate was selected: no hypothesis was tested", red=True)
        for fault in dict.fromkeys(self.faults):
            terminalreporter.write_line(f"ALTERED: {fault}", red=True)
        if self.faults:
            terminalreporter.write_line(
                "Nothing here may be relied on; tables are left as they were.", red=True
            )


class Seal:
    """Sets the exit code once more when every other hook has had its say."""

    def __init__(self, accounting: Accounting) -> None:
        self._accounting = accounting

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Turn a success that the verdicts don't bear out into a failure."""
        yield
        if self._accounting.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_answered_otherwise(answer: Answer) -> bool:
    """Tell whether a gate is invalid for what it did, not by its verdict."""
    return not any(record["answer"] == "invalid" for record in answer.records)


def _by_study(closed: Sequence[Closed]) -> dict[str, list[Closed]]:
    """Return what was asked of each study, by its folder: one for each model."""
    found: dict[str, list[Closed]] = {}
    for one in closed:
        found.setdefault(one.key[0], []).append(one)
    return found


def _tell(terminal: Any, group: Sequence[Closed], replicated: str | None) -> None:
    studies = [closed.study for closed in group if closed.study is not None]
    if not studies:
        return
    from prereg.console import to_text
    from prereg.report import render_verdicts

    table = render_verdicts(
        [record for closed in group for record in closed.records],
        hypotheses=list(dict.fromkeys(name for study in studies for name in study.hypotheses)),
        notes=list(dict.fromkeys(note for study in studies for note in study.notes())),
        models=[closed.model for closed in group] if len(group) > 1 else (),
    )
    terminal.write_line(to_text(table, width=terminal._tw.fullwidth, color=terminal._tw.hasmarkup))
    for line in (line for closed in group for line in (*closed.lines, *closed.failures)):
        terminal.write_line(line)
    if replicated is not None:
        terminal.write_line(replicated)

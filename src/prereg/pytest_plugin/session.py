"""A session from its header to its exit code and verdict table; under xdist, in the controller."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError
from prereg.pytest_plugin.state import STUDIES, models, open_study, studies_under

if TYPE_CHECKING:
    from prereg.study import Study

__all__ = ["Accounting"]


class Accounting:
    """Keeps what the gates answered, and which tests broke; one for each session.

    Parameters
    ----------
    config
        The session's configuration.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.gates: dict[str, list[dict[str, Any]]] = {}
        """Node id of every gate that was run or skipped -> the verdicts it asked for."""
        self.broken: list[str] = []

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every verdict that was asked for."""
        return [record for asked in self.gates.values() for record in asked]

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
        """Before xdist hands out gates, prepare their evidence once and in sight."""
        if not getattr(self.config.option, "numprocesses", None) or hasattr(self.config, "workerinput"):
            return
        if self.config.option.collectonly:
            return
        with contextlib.suppress(PreregError):  # the gate that needs it will say what is wrong
            for folder in studies_under(self.config):
                for model in models(self.config):
                    open_study(self.config, folder, model).prepare()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the terminal and the exit code need."""
        if getattr(report, "prereg_gate", False):
            self.gates.setdefault(report.nodeid, []).extend(getattr(report, "prereg", []))
        if report.failed and getattr(report, "prereg_word", None) not in ("refuted", "inconclusive"):
            self.broken.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that can't be collected as a fault of the harness."""
        if report.failed:
            self.broken.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let the exit code say what `--gate-exit` promises, from the verdicts themselves.

        ``claims``: 0 only if every gate that was selected was asked and supported. ``harness``: a gate that was
        answered is a success, whatever the answer; one that was not is a failure, as is a run cut short.
        """
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not self.gates or exitstatus not in ended or self.config.option.collectonly:
            return
        harness = self.config.getoption("gate_exit") == "harness"
        good = ("supported", "refuted", "inconclusive") if harness else ("supported",)
        fine = all(asked and all(r["outcome"] in good for r in asked) for asked in self.gates.values())
        if not fine:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif harness and not self.broken and not session.shouldfail and not session.shouldstop:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the verdict table, and write the tracked tables where every hypothesis was asked."""
        if not self.gates or self.config.get_verbosity() < -1:
            return
        terminalreporter.section("verdicts", sep="=")
        studies = self.config.stash[STUDIES]
        for key in sorted(studies):
            study = studies[key]
            asked = (study.protocol.study.name, study.pipeline.alias)
            mine = [record for record in self.records if (record["study"], record["model"]) == asked]
            if mine or not self.records:
                _tell(terminalreporter, study, mine)


def _tell(terminal: Any, study: Study, records: list[dict[str, Any]]) -> None:
    from prereg.console import to_text
    from prereg.report import render_verdicts, write_report

    table = render_verdicts(records, hypotheses=study.hypotheses, notes=study.notes())
    terminal.write_line(to_text(table, width=terminal._tw.fullwidth, color=terminal._tw.hasmarkup))
    tested = {record["hypothesis"] for record in records}
    if tested != set(study.hypotheses):
        n, of = len(tested), len(study.hypotheses)
        terminal.write_line(f"{n} of {of} hypotheses tested: tables are left as they were")
        return
    try:
        write_report(study, study.verdicts())
        terminal.write_line(f"tables: {study.pipeline.report_folder}")
    except PreregError as error:
        terminal.write_line(f"the tables could not be written: {error}")

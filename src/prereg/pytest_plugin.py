"""The pytest plugin: options, the `study` fixture, honest accounting, the verdict table. It decides nothing.

A *gate* is a test that takes the `study` fixture. What a gate's outcome means:

============================  =======================================================================
supported                     passed
refuted, inconclusive         failed, with the interval and what was promised instead of a traceback
invalid                       failed: a control failed or the data are degenerate, so nothing was shown
green without being asked     failed: a gate may not pass unless a verdict was asked and is supported
anything else                 reported as not tested
============================  =======================================================================
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prereg.errors import PreregError, StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prereg.pipeline import RunOptions
    from prereg.study import Study, Verdict

DEFAULT_MODEL = "pythia-tiny"
_ASKED = pytest.StashKey[list["Verdict"]]()
_STUDIES = pytest.StashKey[dict[tuple[Path, str], "Study"]]()
_RECORDS = pytest.StashKey[list[dict[str, Any]]]()
_BROKEN = pytest.StashKey[list[str]]()
_OPTIONS = pytest.StashKey["RunOptions"]()


# -- options ----------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the group of options that `pytest --help` shows under "prereg"."""
    group = parser.getgroup("prereg", "prereg: a pre-registered study as a test suite")
    group.addoption(
        "--model",
        action="append",
        default=None,
        metavar="NAME",
        help="model to ask: an alias (`prereg models` lists them), a hub id (org/name[@revision]) or a folder; "
        f"repeat it for several models [default: {DEFAULT_MODEL}]",
    )
    group.addoption(
        "--study",
        metavar="DIR",
        default=None,
        help="folder with the protocol.toml that gates answer to [default: the nearest one above each gate]",
    )
    group.addoption(
        "--cache-dir",
        metavar="DIR",
        default=None,
        help="where models and activations are kept [default: $PREREG_CACHE, else the user's cache folder]",
    )
    group.addoption("--device", default="cpu", help="torch device for capture: cpu, cuda, mps [default: cpu]")
    group.addoption(
        "--dtype",
        default="float32",
        choices=["float32"],
        help="precision of the forward pass; evidence is float32 [default: float32]",
    )
    group.addoption("--offline", action="store_true", help="never ask the network for a model")
    group.addoption(
        "--engine",
        default="loky",
        help="joblib backend that spreads measurements: loky, threading, dask, ray",
    )
    group.addoption(
        "--jobs",
        type=int,
        default=None,
        metavar="N",
        help="worker processes for measurements [default: one for each core]",
    )
    group.addoption(
        "--gate-exit",
        choices=["claims", "harness"],
        default="claims",
        help="what the exit code speaks of: `claims` fails unless every gate is supported; `harness` fails only "
        "when a gate could not be answered (for CI that publishes verdicts) [default: claims]",
    )
    group.addoption(
        "--report-dir",
        metavar="DIR",
        default=None,
        help="where evidence, tables and verdicts.json are written [default: reports/ beside pyproject.toml]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the session's own memory."""
    config.stash[_STUDIES] = {}
    config.stash[_RECORDS] = []
    config.stash[_BROKEN] = []


def _run_options(config: pytest.Config) -> RunOptions:
    if _OPTIONS not in config.stash:
        from prereg.pipeline import RunOptions, default_cache
        from prereg.workers import available_cores

        jobs = available_cores() if config.getoption("jobs") is None else config.getoption("jobs")
        if jobs < 1:
            raise pytest.UsageError("--jobs must be at least 1")
        reports, cache = config.getoption("report_dir"), config.getoption("cache_dir")
        config.stash[_OPTIONS] = RunOptions(
            root=config.rootpath,
            cache=Path(cache).expanduser() if cache else default_cache(),
            reports=Path(reports) if reports else None,
            device=config.getoption("device"),
            dtype=config.getoption("dtype"),
            offline=config.getoption("offline"),
            engine=config.getoption("engine"),
            jobs=jobs,
            progress=lambda: _progress(config),
            say=lambda line: _say(config, line),
        )
    return config.stash[_OPTIONS]


def _models(config: pytest.Config) -> list[str]:
    return list(dict.fromkeys(config.getoption("model") or [DEFAULT_MODEL]))


# -- the study fixture ------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask every gate once for each model."""
    if "study" in metafunc.fixturenames:
        metafunc.parametrize("study", _models(metafunc.config), indirect=True)


@pytest.fixture
def study(request: pytest.FixtureRequest) -> Study:
    """Return the study whose protocol.toml is nearest above the gate, on the model under test.

    `study.verdict("H1")` answers a hypothesis, capturing and measuring first where evidence is missing.
    """
    folder = _study_folder(request.config, request.path)
    opened = _open(request.config, folder, getattr(request, "param", DEFAULT_MODEL))
    asked: list[Verdict] = []
    request.node.stash[_ASKED] = asked
    return opened.watched(asked.append)


def _study_folder(config: pytest.Config, gate: Path) -> Path:
    named = config.getoption("study")
    if named:
        return Path(named)
    for folder in gate.parents:
        if (folder / "protocol.toml").is_file():
            return folder
        if folder == config.rootpath:
            break
    raise StudyError(
        f"{gate}: there is no protocol.toml beside or above this gate",
        remedy="put the gate into its study's folder, or name the folder with --study",
    )


def _open(config: pytest.Config, folder: Path, model: str) -> Study:
    from prereg.study import Study

    studies = config.stash[_STUDIES]
    key = (folder.resolve(), model)
    if key not in studies:
        studies[key] = Study.open(folder, model=model, options=_run_options(config))
    return studies[key]


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


# -- accounting -------------------------------------------------------------------------------------


# Outermost, so that marks such as xfail have had their say before the report is read.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Turn each gate's outcome into what its verdict says, no more and no less."""
    report: pytest.TestReport = yield
    asked = item.stash.get(_ASKED, None)
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
        "hypothesis", "model", "outcome", "estimate", "low", "high", "level", "threshold", "direction",
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what the terminal and the exit code need; under xdist this runs in the controller."""
    config = _session_config
    if config is None:
        return
    config.stash[_RECORDS].extend(getattr(report, "prereg", []))
    if report.failed and getattr(report, "prereg_word", None) not in ("refuted", "inconclusive"):
        config.stash[_BROKEN].append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count a file that can't be collected as a fault of the harness."""
    if report.failed and _session_config is not None:
        _session_config.stash[_BROKEN].append(report.nodeid)


_session_config: pytest.Config | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember the session; before xdist hands out gates, prepare their evidence once and in sight."""
    global _session_config
    _session_config = session.config
    if _is_xdist_controller(session.config) and not session.config.option.collectonly:
        with contextlib.suppress(PreregError):  # the gate that needs it will say what is wrong
            for folder in _studies_under(session.config):
                for model in _models(session.config):
                    _open(session.config, folder, model).prepare()


def _is_xdist_controller(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With ``--gate-exit=harness``, an answered gate is a success of the harness, whatever the answer."""
    config = session.config
    only_verdicts = exitstatus == pytest.ExitCode.TESTS_FAILED and not config.stash[_BROKEN]
    if config.getoption("gate_exit") == "harness" and only_verdicts and config.stash[_RECORDS]:
        session.exitstatus = pytest.ExitCode.OK


# -- what people see --------------------------------------------------------------------------------


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name study, model, registration and sample before anything runs."""
    lines = []
    for folder in _studies_under(config):
        for model in _models(config):
            try:
                lines += _open(config, folder, model).header()
            except PreregError as error:
                lines.append(f"prereg: {error}")
    return lines


def _studies_under(config: pytest.Config) -> list[Path]:
    """Return the study folders that the command line points at."""
    named = config.getoption("study")
    if named:
        return [Path(named)]
    found: dict[Path, None] = {}
    for argument in config.args:
        path = Path(str(argument).split("::")[0])
        path = path if path.is_absolute() else config.invocation_params.dir / path
        nearest = next((p for p in (path, *path.parents) if (p / "protocol.toml").is_file()), None)
        if nearest is not None:
            found[nearest] = None
        elif path.is_dir():
            found.update(dict.fromkeys(p.parent for p in sorted(path.glob("*/protocol.toml"))))
    return list(found)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdict table, and write the tracked tables where every hypothesis was asked."""
    records = config.stash[_RECORDS]
    if not records or config.get_verbosity() < -1:
        return
    from prereg.console import to_text
    from prereg.report import render_verdicts, write_report

    terminal = terminalreporter
    terminal.section("verdicts", sep="=")
    for (folder, _), study in sorted(config.stash[_STUDIES].items()):
        mine = [
            r for r in records if r["model"] == study.pipeline.alias and r["hypothesis"] in study.hypotheses
        ]
        if not mine or folder != study.folder.resolve():
            continue
        table = render_verdicts(mine, hypotheses=study.hypotheses, notes=study.notes())
        terminal.write_line(to_text(table, width=terminal._tw.fullwidth, color=terminal._tw.hasmarkup))
        tested = {r["hypothesis"] for r in mine}
        if tested == set(study.hypotheses):
            try:
                write_report(study, study.verdicts())
                terminal.write_line(f"tables: {study.pipeline.report_folder}")
            except PreregError as error:
                terminal.write_line(f"the tables could not be written: {error}")
        else:
            terminal.write_line(
                f"{len(tested)} of {len(study.hypotheses)} hypotheses tested: tables are left as they were"
            )


def _say(config: pytest.Config, line: str) -> None:
    with _uncaptured(config):
        import sys

        sys.stderr.write(f"\nprereg: {line}\n")


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        yield


class _Uncaptured:
    """A progress bar that shows through pytest's capture of output."""

    def __init__(self, config: pytest.Config) -> None:
        from prereg.console import BarProgress

        self._config = config
        self._inner = BarProgress()
        self._open: contextlib.ExitStack | None = None

    def start(self, total: int, label: str) -> None:
        self._open = contextlib.ExitStack()
        self._open.enter_context(_uncaptured(self._config))
        self._inner.start(total, label)

    def advance(self, n: int = 1) -> None:
        self._inner.advance(n)

    def finish(self) -> None:
        self._inner.finish()
        if self._open is not None:
            self._open.close()
            self._open = None


def _progress(config: pytest.Config) -> _Uncaptured:
    return _Uncaptured(config)

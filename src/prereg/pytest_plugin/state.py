"""What one pytest session remembers: its options, and the studies it opened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prereg.errors import PreregError, StudyError
from prereg.pytest_plugin.display import progress, say
from prereg.pytest_plugin.ledger import Ledger
from prereg.pytest_plugin.refusals import hooks_removed
from prereg.pytest_plugin.tamper import Integrity

if TYPE_CHECKING:
    from prereg.pipeline import RunOptions
    from prereg.study import Study

DEFAULT_MODEL = "pythia-tiny"

STUDIES = pytest.StashKey[dict[tuple[str, str], "Study"]]()
INTEGRITY = pytest.StashKey[Integrity]()
PLUGINS = pytest.StashKey[dict[str, object]]()
LEDGER = pytest.StashKey[Ledger]()
_OPTIONS = pytest.StashKey["RunOptions"]()
_NEAREST = pytest.StashKey[dict[Path, Path | None]]()
_PROMISES = pytest.StashKey[dict[Path, tuple[str, ...]]]()


def run_options(config: pytest.Config) -> RunOptions:
    """Return how this session runs, read from its options once."""
    if _OPTIONS not in config.stash:
        from prereg.pipeline import RunOptions, default_cache
        from prereg.workers import available_cores, require_engine

        jobs = available_cores() if config.getoption("jobs") is None else config.getoption("jobs")
        if jobs < 1:
            raise pytest.UsageError("--jobs must be at least 1")
        require_engine(config.getoption("engine"), jobs)
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
            progress=lambda: progress(config),
            say=lambda line: say(config, line),
            integrity=lambda: _altered(config),
        )
    return config.stash[_OPTIONS]


def _altered(config: pytest.Config) -> str | None:
    integrity = config.stash[INTEGRITY]
    integrity.faults()
    return integrity.explain()


def models(config: pytest.Config) -> list[str]:
    """Return the models under test, each once."""
    return list(dict.fromkeys(config.getoption("model") or [DEFAULT_MODEL]))


def study_folder(config: pytest.Config, gate: Path) -> Path:
    """Return the folder of the protocol that a gate answers to.

    Raises
    ------
    StudyError
        If none lies beside or above it.
    """
    named = config.getoption("study")
    if named:
        return Path(named)
    nearest = nearest_protocol(config, gate)
    if nearest is not None:
        return nearest
    raise StudyError(
        f"{gate}: there is no protocol.toml beside or above this gate",
        remedy="put the gate into its study's folder, or name the folder with --study",
    )


def open_study(config: pytest.Config, folder: Path, model: str) -> Study:
    """Return the study in `folder` on one model, opened once a session.

    Raises
    ------
    PreregError
        If it can't be opened, or prereg itself is not what its files say.
    """
    from prereg.study import Study

    studies = config.stash[STUDIES]
    key = study_key(folder, model)
    require_untouched(config)
    if key not in studies:
        studies[key] = Study.open(folder, model=model, options=run_options(config))
    return studies[key]


def study_key(folder: Path, model: str) -> tuple[str, str]:
    """Return what a study is known by in this session."""
    return (str(folder.resolve()), model)


def require_untouched(config: pytest.Config) -> None:
    """Refuse to go on where prereg was altered in memory, or its hooks are no longer called.

    Raises
    ------
    StudyError
        If anything differs from what its files define.
    """
    removed = next(hooks_removed(config, config.stash[PLUGINS]), None)
    if removed is not None:
        raise StudyError(removed, remedy="remove what takes prereg's hooks away, in conftest.py or a plugin")
    integrity = config.stash[INTEGRITY]
    if integrity.faults():
        raise StudyError(
            str(integrity.explain()),
            remedy="remove what replaces it from conftest.py, the gate or the fixture, and run again",
        )


def promised(config: pytest.Config, folder: Path) -> tuple[str, ...]:
    """Return the ids that the protocol in `folder` promises; none where it can't be read."""
    known = config.stash.setdefault(_PROMISES, {})
    if folder not in known:
        from prereg.protocol import read_protocol

        try:
            known[folder] = tuple(read_protocol(folder).protocol.hypotheses)
        except PreregError:
            known[folder] = ()
    return known[folder]


def hypothesis_of(name: str, promises: tuple[str, ...]) -> str | None:
    """Return the hypothesis that a gate's name says it asks, test_<id>_<what it says>; None where it says none."""
    mine = [p for p in promises if f"{name}_".startswith(f"test_{re.sub('[^a-z0-9]', '_', p.lower())}_")]
    return max(mine, key=len) if mine else None


def holds_gates(config: pytest.Config, file: Path) -> bool:
    """Tell whether a file that was not imported defines a test named after a hypothesis of its study."""
    folder = nearest_protocol(config, file)
    if folder is None or not file.is_file():
        return False
    tests = re.findall(r"\bdef\s+(test_\w+)", file.read_text("utf-8", errors="replace"))
    return any(hypothesis_of(name, promised(config, folder)) is not None for name in tests)


def nearest_protocol(config: pytest.Config, file: Path) -> Path | None:
    """Return the folder of the protocol beside or above a file, within the project; None if there is none."""
    known = config.stash.setdefault(_NEAREST, {})
    if file.parent not in known:
        known[file.parent] = _nearest(file, config.rootpath)
    return known[file.parent]


def _nearest(file: Path, root: Path) -> Path | None:
    for folder in file.parents:
        if (folder / "protocol.toml").is_file():
            return folder
        if folder == root:
            break
    return None


def studies_under(config: pytest.Config) -> list[Path]:
    """Return the study folders that the command line points at.

    Below a folder that is named, a protocol is a study if it is registered or has gates: test data may hold others.
    """
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
            below = (protocol.parent for protocol in sorted(path.glob("*/protocol.toml")))
            found.update(dict.fromkeys(folder for folder in below if _is_study(config, folder)))
    return list(found)


def _is_study(config: pytest.Config, folder: Path) -> bool:
    if (folder / "registration.json").exists():
        return True
    return any(holds_gates(config, file) for file in sorted(folder.rglob("*.py")))


def selects_by_hand(config: pytest.Config) -> bool:
    """Tell whether the command line itself picks single tests or files, so that gates may rightly be left out.

    What a configuration file or ``PYTEST_ADDOPTS`` leaves out was nobody's choice in this run, and is missed.
    """
    arguments = [str(argument) for argument in config.invocation_params.args]
    return any(_PICKS.match(a) or "::" in a or a.endswith(".py") for a in arguments)


# -k and -m also stand in a cluster such as -qk, or with their value attached.
_PICKS = re.compile(
    r"-(?!p)[a-zA-Z]{0,4}[km]|--(deselect|ignore|ignore-glob|lf|last-failed|sw|stepwise|collect-only|co)\b"
)

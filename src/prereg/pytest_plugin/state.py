"""What one pytest session remembers: its options, and the studies it opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prereg.errors import StudyError
from prereg.pytest_plugin.display import progress, say

if TYPE_CHECKING:
    from prereg.pipeline import RunOptions
    from prereg.study import Study, Verdict

DEFAULT_MODEL = "pythia-tiny"

ASKED = pytest.StashKey[list["Verdict"]]()
PROMISES = pytest.StashKey[tuple[str, ...]]()
STUDIES = pytest.StashKey[dict[tuple[Path, str], "Study"]]()
_OPTIONS = pytest.StashKey["RunOptions"]()


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
        )
    return config.stash[_OPTIONS]


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
    for folder in gate.parents:
        if (folder / "protocol.toml").is_file():
            return folder
        if folder == config.rootpath:
            break
    raise StudyError(
        f"{gate}: there is no protocol.toml beside or above this gate",
        remedy="put the gate into its study's folder, or name the folder with --study",
    )


def open_study(config: pytest.Config, folder: Path, model: str) -> Study:
    """Return the study in `folder` on one model, opened once a session."""
    from prereg.study import Study

    studies = config.stash[STUDIES]
    key = (folder.resolve(), model)
    if key not in studies:
        studies[key] = Study.open(folder, model=model, options=run_options(config))
    return studies[key]


def studies_under(config: pytest.Config) -> list[Path]:
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

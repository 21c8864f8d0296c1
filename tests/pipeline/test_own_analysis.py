"""Somebody's own analysis at work: what it may depend on, and what becomes of its mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prereg.analysis.authoring import Workers, random_activations
from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.analysis.watching import Watch
from prereg.errors import AnalysisError
from prereg.evidence import Evidence
from prereg.pipeline.measuring import settings_of
from prereg.pipeline.own import measure_own

SOURCE = """\
import time
from pathlib import Path
import numpy as np
from prereg.analysis.authoring import Activations, Check, Evidence, Settings, Task, Workers, held_out_table

HERE = Path(__file__).parent


class OneSettings(Settings):
    times: float


def fit_names(settings: OneSettings) -> frozenset[str]:
    return frozenset({"size"})


def size(*, delta, times):
    return {"value.size": times * np.linalg.norm(delta, axis=1)}


def measure(activations: Activations, settings: OneSettings, workers: Workers) -> Evidence:
    deltas = [activations.update(l)[activations.held_out] for l in range(activations.n_layers)]
    tasks = [Task(f"l{i}", size, {"delta": d, "times": settings.times}) for i, d in enumerate(deltas)]
    found = workers.map(tasks, "one")
    values = np.stack([one["value.size"] for one in found.values()], axis=1)
    table = held_out_table(activations, {"value.size": values})
    return Evidence(table, {}, (Check(name="a", passed=True, detail="b"),))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a study's folder and a cache inside."""
    (tmp_path / "gates" / "s").mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "weights").write_text("1")
    return tmp_path


def measured(project: Path, source: str = SOURCE, workers: Workers | None = None) -> Evidence:
    """Measure made-up activations by an analysis."""
    folder = project / "gates" / "s"
    (folder / "one.py").write_text(source)
    spec = find_analysis("one", folder)
    assert isinstance(spec, OwnAnalysis)
    watch = Watch(project, project / "cache")
    with watch.over(spec):
        settings = spec.load().OneSettings(times=2.0)
    return measure_own(spec, random_activations(), settings, workers or Workers(), watch, {})


def with_line(line: str, *, before: str = "    deltas = [") -> str:
    """Return the analysis with a line in it, in `measure` as a rule."""
    indent = " " * (len(before) - len(before.lstrip()))
    return SOURCE.replace(before, f"{indent}{line}\n{before}", 1)


def test_an_honest_one_is_taken(project: Path) -> None:
    """With any number of jobs."""
    one, two = measured(project), measured(project, workers=Workers(jobs=2))
    assert one.table.equals(two.table)
    assert one.fits == ("size",)


def test_what_it_prints_is_no_part_of_an_answer(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output may be one JSON document."""
    measured(project, with_line('print("hello")'))
    found = capsys.readouterr()
    assert (found.out, "hello" in found.err) == ("", True)


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("(HERE / 'factor.txt').read_text()", "    deltas = ["),
        ("np.loadtxt(HERE.parents[1] / 'factor.txt')", "    deltas = ["),
        ("FACTOR = (HERE / 'factor.txt').read_text()", "class OneSettings"),
    ],
)
def test_a_file_of_the_project_that_it_reads_is_told(project: Path, line: str, before: str) -> None:
    """Nothing pins it; when the module is loaded, or later."""
    for folder in (project, project / "gates" / "s"):
        (folder / "factor.txt").write_text("1")
    with pytest.raises(AnalysisError, match=r"it reads (gates/s/)?factor.txt, which nothing pins"):
        measured(project, with_line(line, before=before))


def test_models_and_libraries_may_be_read(project: Path) -> None:
    """What lies in the cache is addressed by its content, what is installed by its version."""
    measured(
        project, with_line("(HERE.parents[1] / 'cache' / 'weights').read_text(); open(np.__file__).close()")
    )


def test_a_module_that_is_found_behind_its_back_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source tells what it imports by name; what it imports otherwise is seen when it comes."""
    (project.parent / "hidden_helper.py").write_text("factor = 1.0\n")
    monkeypatch.syspath_prepend(str(project.parent))
    monkeypatch.delitem(sys.modules, "hidden_helper", raising=False)
    line = '__import__("importlib").import_module("hidden" + "_helper")'
    with pytest.raises(AnalysisError, match="it imports hidden_helper from"):
        measured(project, with_line(line))
    sys.modules.pop("hidden_helper", None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("Check(name='a', passed=np.bool_(True), detail='b')", "ValidationError"),
        ("activations.held_out[:] = True", "read-only"),
        ("activations.resid[0] = 0.0", "read-only"),
        ("import nothing_like_it", "ModuleNotFoundError"),
    ],
)
def test_its_own_mistakes_are_told_with_file_and_line(project: Path, line: str, words: str) -> None:
    """Not as a fault of prereg's, and not as an exit code of its choice."""
    with pytest.raises(AnalysisError) as caught:
        measured(project, with_line(line))
    assert words in caught.value.message
    number = SOURCE.splitlines().index(
        "    deltas = [activations.update(l)[activations.held_out] for l in range(activations.n_layers)]"
    )
    assert f"one.py:{number + 1}: " in caught.value.message
    assert "one.py" in str(caught.value.remedy)


def test_a_mistake_in_a_worker_is_told_too(project: Path) -> None:
    """Whichever process it happens in."""
    source = SOURCE.replace("return {", "raise KeyError('x'); return {")
    for jobs in (1, 2):
        with pytest.raises(AnalysisError, match="KeyError: 'x'"):
            measured(project, source, Workers(jobs=jobs))


def test_an_interrupt_is_no_mistake_of_its_own(project: Path) -> None:
    """Ctrl-C goes through."""
    with pytest.raises(KeyboardInterrupt):
        measured(project, with_line("raise KeyboardInterrupt"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            SOURCE.replace(
                "values = np", "settings = settings; values = np.random.default_rng().random() * np"
            ),
            "other numbers in value.size",
        ),
        (
            SOURCE.replace("times * np.linalg", "np.random.default_rng().random() * np.linalg"),
            "the task l0 has another result",
        ),
        (SOURCE.replace('f"l{i}"', 'f"l{i}-{time.time_ns()}"'), "it has other tasks"),
        (
            SOURCE.replace("HERE =", "NOW = time.time_ns()\nHERE =").replace(
                "values = np", "values = NOW * np"
            ),
            "other numbers",
        ),
        (SOURCE.replace('detail="b"', "detail=str(time.time_ns())"), "its checks say something else"),
    ],
)
def test_one_that_gives_other_numbers_each_time_is_refused(project: Path, source: str, words: str) -> None:
    """Or drawing anew until it pleases would be free."""
    with pytest.raises(AnalysisError, match=words):
        measured(project, source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SOURCE.replace('frozenset({"size"})', 'frozenset({"size", "angle"})'), "no such column came"),
        (SOURCE.replace('(Check(name="a", passed=True, detail="b"),)', '("fine",)'), "a tuple of Check"),
        (SOURCE.replace("{}, (Check", "{3: 4}, (Check"), "others beside it by name"),
    ],
)
def test_what_could_not_be_read_back_is_refused_before_it_is_written(
    project: Path, source: str, words: str
) -> None:
    """A bad record would stand in the way of every later measurement."""
    with pytest.raises(AnalysisError, match=words):
        measured(project, source)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    times: float", "    times: float = 2.0", "has a default for times"),
        (
            "    times: float",
            '    model_config = {"extra": "allow"}\n    times: float',
            "changes extra of Settings",
        ),
        ("class OneSettings(Settings)", "class OneSettings", "is no subclass of"),
    ],
)
def test_settings_that_would_let_a_slip_pass_are_refused(
    project: Path, old: str, new: str, words: str
) -> None:
    """Every value is a promise, and a key that nobody reads is none."""
    folder = project / "gates" / "s"
    (folder / "one.py").write_text(SOURCE.replace(old, new))
    spec = find_analysis("one", folder)
    with pytest.raises(AnalysisError, match=words):
        settings_of(None, "one", spec, Watch(project, project / "cache"))  # type: ignore[arg-type]


def test_rows_are_checked_against_who_was_asked_before(project: Path) -> None:
    """Not against what the analysis has made of it."""
    line = "object.__setattr__(activations, 'held_out', np.ones(len(activations.prompts), bool))"
    with pytest.raises(AnalysisError, match="is a training prompt"):
        measured(project, with_line(line))

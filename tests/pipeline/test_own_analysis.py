"""Somebody's own analysis at work: what it may depend on, and what becomes of its mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from prereg.analysis.authoring import Workers, random_activations
from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.analysis.watching import Watch
from prereg.errors import AnalysisError, StudyError
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
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "weights").write_text("1")
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


def test_a_data_file_in_a_package_that_it_imports_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources of a package are pinned, what lies beside them is not."""
    package = project / "src" / "lens_helper"
    package.mkdir(parents=True)
    (package / "factor.txt").write_text("1")
    text = "from pathlib import Path\nFACTOR = float((Path(__file__).parent / 'factor.txt').read_text())\n"
    (package / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(project / "src"))
    with pytest.raises(AnalysisError, match=r"it reads src/lens_helper/factor.txt"):
        measured(project, f"import lens_helper\n{SOURCE}")
    (package / "__init__.py").write_text(
        "import inspect, sys\nTEXT = inspect.getsource(sys.modules[__name__])\n"
    )
    measured(project, f"import lens_helper\n{SOURCE}")


def test_a_cache_that_holds_the_project_hides_nothing(tmp_path: Path) -> None:
    """Of a cache only its own folders may be read."""
    folder = tmp_path / "gates" / "s"
    folder.mkdir(parents=True)
    (folder / "factor.txt").write_text("1")
    (folder / "one.py").write_text(with_line("(HERE / 'factor.txt').read_text()"))
    spec = find_analysis("one", folder)
    watch = Watch(tmp_path, tmp_path)
    settings = spec.load().OneSettings(times=2.0)
    with pytest.raises(AnalysisError, match=r"it reads gates/s/factor.txt"):
        measure_own(spec, random_activations(), settings, Workers(), watch, {})


@pytest.mark.parametrize(
    "line", ["import safetensors.numpy", "from pyarrow import parquet", "import subprocess as s"]
)
def test_modules_that_read_unseen_are_refused(project: Path, line: str) -> None:
    """Python tells nobody what they open."""
    with pytest.raises(StudyError, match=r"one.py:1: it imports .*could bring in"):
        measured(project, f"{line}\n{SOURCE}")


def test_a_checkpoint_that_somebody_bent_is_noticed_and_dropped(project: Path) -> None:
    """Not every time, since some tasks are done again and nobody knows which: here all of them."""
    kept = Workers(checkpoint=project / "cache" / "checkpoints" / "x")
    honest = measured(project, workers=kept)
    for file in (kept.checkpoint / "one").glob("*.npz"):
        with np.load(file) as archive:
            values = {name: 0.5 * archive[name] for name in archive.files}
        np.savez(file, **values)
    with pytest.raises(
        AnalysisError, match=r"done a second time, the task l\d of one gives another value.size: by up to"
    ):
        measured(project, workers=kept)
    assert measured(project, workers=kept).table.equals(honest.table)


def test_workers_import_what_was_digested(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within a task, in another process: not what lies on the disk by then."""
    package = project / "src" / "lens_worker"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("FACTOR = 1.0\n")
    monkeypatch.syspath_prepend(str(project / "src"))
    source = SOURCE.replace(
        "    return {", "    from lens_worker.scale import FACTOR\n    times = times * FACTOR\n    return {"
    )
    write = "(HERE.parents[1] / 'src/lens_worker/scale.py').write_text('FACTOR = 0.5\\n')"
    bent = source.replace("    deltas = [", f"    {write}\n    deltas = [")
    honest = measured(project, source)
    assert measured(project, bent, Workers(jobs=2)).table.equals(honest.table)


def test_results_may_be_used_in_place_and_lists_may_share_keys(project: Path) -> None:
    """What a task returned belongs to whoever asked; a checkpoint keeps lists apart."""
    more = (
        "    for one in found.values(): one['value.size'] += 1.0\n"
        "    other = workers.map([Task(t.key, size, {**t.arguments, 'times': 9.0}) for t in tasks], 'other')\n"
        "    assert not np.array_equal(other['l0']['value.size'], found['l0']['value.size'] - 1.0)\n    values ="
    )
    kept = Workers(checkpoint=project / "cache" / "checkpoints" / "y")
    measured(project, SOURCE.replace("    values =", more), kept)


def test_annotations_are_what_the_file_says(project: Path) -> None:
    """Nothing of this package's own compiler settings gets into it."""
    line = "DATA = __import__('dataclasses').make_dataclass('D', [('x', float)])"
    check = "def _f(a: float): ...\nassert _f.__annotations__['a'] is float"
    measured(project, SOURCE.replace("HERE =", f"{line}\n{check}\nHERE ="))


def test_models_and_libraries_may_be_read(project: Path) -> None:
    """What lies in the cache is addressed by its content, what is installed by its version."""
    measured(
        project,
        with_line("(HERE.parents[1] / 'cache/models/weights').read_text(); open(np.__file__).close()"),
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
    assert ("pip install" if "import" in line else "one.py") in str(caught.value.remedy)


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
            "gives another value.size",
        ),
        (SOURCE.replace('f"l{i}"', 'f"l{i}-{time.time_ns()}"'), "it has other tasks"),
        (
            SOURCE.replace("HERE =", "NOW = time.time_ns()\nHERE =").replace(
                "values = np", "values = NOW * np"
            ),
            "other numbers",
        ),
        (SOURCE.replace('name="a"', "name=str(time.time_ns())"), "its checks say something else"),
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

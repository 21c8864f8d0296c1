"""Analyses that somebody else wrote: found in one place, understood without being run, bound to their source."""

from __future__ import annotations

import hashlib
import importlib
import py_compile
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from prereg.analysis import serving
from prereg.analysis.authoring import Workers, load_analysis, random_activations
from prereg.analysis.catalogue import ANALYSES
from prereg.analysis.own import OwnAnalysis, find_analysis
from prereg.errors import StudyError

SOURCE = """\
from prereg.analysis.authoring import Activations, Evidence, Settings, Task, Workers, held_out_table
import numpy as np


class OneSettings(Settings):
    times: float


def twice(*, values, times):
    return {"value.size": times * values}


def measure(activations: Activations, settings: OneSettings, workers: Workers) -> Evidence:
    sizes = [np.linalg.norm(activations.update(l)[activations.held_out], axis=1) for l in range(activations.n_layers)]
    tasks = [Task(f"l{i}", twice, {"values": s, "times": settings.times}) for i, s in enumerate(sizes)]
    found = workers.map(tasks, "one").values()
    return Evidence(held_out_table(activations, {"value.size": np.stack([f["value.size"] for f in found], axis=1)}))
"""
BOOM = 'raise RuntimeError("it was run")\n'


def beside(folder: Path, source: str = SOURCE, name: str = "one") -> Path:
    """Write an analysis beside a protocol."""
    file = folder / f"{name}.py"
    file.write_text(source, newline="\n")
    return file


def rests_on(spec: object) -> dict[str, str]:
    """Return what an analysis rests on, with digests."""
    assert isinstance(spec, OwnAnalysis)
    return spec.sources.digests


def installed(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    value: str = "lens_kit.one",
    package: str = "lens_kit",
    **files: str,
) -> None:
    """Install a distribution with one entry point, as pip would have left it."""
    for name, text in (files or {"__init__": "", "one": SOURCE}).items():
        file = site / package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[prereg.analyses]\none = {value}\n")
    monkeypatch.syspath_prepend(str(site))


@pytest.fixture(autouse=True)
def _forget_modules() -> object:
    """Leave no module of a test behind."""
    before, kept = set(sys.modules), dict(serving._KEPT)
    yield
    serving._KEPT.clear()
    serving._KEPT.update(kept)
    for name in set(sys.modules) - before:
        if name.startswith(("prereg_analysis_", "lens_kit", "other_kit")):
            del sys.modules[name]


def test_a_name_of_this_package_is_its_own(tmp_path: Path) -> None:
    """Built-in analyses need no file, and their key holds no source: a registration pins this package's modules."""
    assert find_analysis("kernels", tmp_path) is ANALYSES["kernels"]
    assert find_analysis("kernels", tmp_path).digest == ""


def test_a_file_beside_the_protocol_is_understood_without_being_run(tmp_path: Path) -> None:
    """What it takes and the name of its settings are read from its source."""
    source = SOURCE.replace("workers: Workers)", "workers: Workers, *, model: object, twin: bool)") + BOOM
    spec = find_analysis("one", beside(tmp_path, source).parent)
    assert isinstance(spec, OwnAnalysis)
    assert (spec.settings, spec.uses_model, spec.lean_twin, spec.uses_dictionaries) == (
        "OneSettings",
        True,
        True,
        False,
    )
    with pytest.raises(RuntimeError, match="it was run"):
        spec.load()
    assert spec.module not in sys.modules, "half a module was left behind"


def test_its_digest_is_that_of_its_text_with_unix_line_ends(tmp_path: Path) -> None:
    """A checkout on another system is no edit."""
    file = beside(tmp_path)
    expected = find_analysis("one", tmp_path).digest
    assert rests_on(find_analysis("one", tmp_path)) == {"one.py": hashlib.sha256(SOURCE.encode()).hexdigest()}
    file.write_bytes(SOURCE.replace("\n", "\r\n").encode())
    assert find_analysis("one", tmp_path).digest == expected
    file.write_text(SOURCE.replace("times *", "2 * times *"))
    assert find_analysis("one", tmp_path).digest != expected


def test_what_runs_is_what_was_digested(tmp_path: Path) -> None:
    """An edit between the two is not taken up by the one who looked before."""
    file = beside(tmp_path)
    spec = find_analysis("one", tmp_path)
    file.write_text(BOOM)
    assert spec.load().OneSettings(times=2.0).times == 2.0


def test_two_studies_may_each_have_an_analysis_of_one_name(tmp_path: Path) -> None:
    """In one process each gets its own."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = load_analysis(beside(tmp_path / "a"))
    other = load_analysis(beside(tmp_path / "b", SOURCE.replace("OneSettings", "OtherSettings")))
    assert hasattr(one, "OneSettings")
    assert hasattr(other, "OtherSettings")
    assert load_analysis(tmp_path / "a" / "one.py") is one, "a second use runs it again"


def test_worker_processes_can_do_its_tasks(tmp_path: Path) -> None:
    """They can't import a file by its name, and give the same numbers as this process."""
    one = load_analysis(beside(tmp_path))
    activations, settings = random_activations(), one.OneSettings(times=3.0)
    here = one.measure(activations, settings, Workers())
    there = one.measure(activations, settings, Workers(jobs=2))
    assert here.table.equals(there.table)


def test_an_entry_point_is_found_and_pinned_with_its_whole_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every module of the package counts, whichever the analysis imports; none is imported to find out."""
    installed(tmp_path / "site", monkeypatch, __init__=BOOM, one=SOURCE, helper="x = 1\n")
    spec = find_analysis("one", tmp_path)
    assert isinstance(spec, OwnAnalysis)
    assert sorted(rests_on(spec)) == ["lens_kit/__init__.py", "lens_kit/helper.py", "lens_kit/one.py"]
    assert "lens_kit" not in sys.modules
    (tmp_path / "site" / "lens_kit" / "helper.py").write_text("x = 2\n")
    assert find_analysis("one", tmp_path).digest != spec.digest


def test_an_installed_analysis_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported as any module is, once it measures."""
    installed(tmp_path / "site", monkeypatch)
    module = find_analysis("one", tmp_path).load()
    evidence = module.measure(random_activations(), module.OneSettings(times=1.0), Workers())
    assert evidence.fits == ("size",)


def test_a_module_without_a_package_is_pinned_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution may be one file."""
    installed(tmp_path / "site", monkeypatch, value="other_kit", package="other")
    (tmp_path / "site" / "other_kit.py").write_text(SOURCE)
    assert list(rests_on(find_analysis("one", tmp_path))) == ["other_kit.py"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("lens_kit.one:measure", "doesn't name a module"),
        ("lens_kit.gone", "there is no module lens_kit.gone"),
        ("no_such_package.one", "there is no module"),
        ("prereg.analysis.kernels", "there is no module"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    """With what should be written in its place; this package's own modules can't be taken under another name."""
    installed(tmp_path / "site", monkeypatch, value=value)
    with pytest.raises(StudyError, match=words) as caught:
        find_analysis("one", tmp_path)
    assert "prereg.analyses" in str(caught.value.remedy)


@pytest.mark.parametrize("kind", ["built-in and file", "file and package", "two packages"])
def test_a_name_that_two_provide_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Which of them measures must not depend on an order that nobody sees."""
    name = "kernels" if kind == "built-in and file" else "one"
    if kind != "two packages":
        beside(tmp_path, name=name)
    if kind != "built-in and file":
        installed(tmp_path / "site", monkeypatch)
    if kind == "two packages":
        installed(tmp_path / "more", monkeypatch, package="other_kit", value="other_kit.one")
    with pytest.raises(StudyError, match="could be any of"):
        find_analysis(name, tmp_path)


def test_a_name_that_nobody_provides_is_an_error_with_all_ways_on(tmp_path: Path) -> None:
    """It lists what there is, and says where a file would have to lie."""
    with pytest.raises(StudyError, match=r"there are .*kernels") as caught:
        find_analysis("one", tmp_path)
    assert str(tmp_path / "one.py") in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def measure(", "not Python"),
        ("x = 1\n", "0 functions are called measure"),
        (SOURCE + SOURCE, "2 functions are called measure"),
        (SOURCE.replace("workers: Workers)", "workers: Workers, device: str)"), "measure takes"),
        (SOURCE.replace("workers: Workers)", "workers: Workers, *, device: str)"), "measure takes"),
        (SOURCE.replace("workers: Workers)", "workers: Workers, **more: object)"), "measure takes"),
        (SOURCE.replace("settings: OneSettings", "settings"), "names no class"),
        (SOURCE.replace("settings: OneSettings", "settings: dict[str, int]"), "names no class"),
        (SOURCE.replace("settings: OneSettings", "settings: Missing"), "names no class"),
        ("x = 1\0", "not Python"),
    ],
)
def test_a_file_that_is_no_analysis_is_refused_before_anything_runs(
    tmp_path: Path, source: str, words: str
) -> None:
    """With what is wrong, and how it should read."""
    beside(tmp_path, source)
    with pytest.raises(StudyError, match=words):
        find_analysis("one", tmp_path)


@pytest.mark.parametrize(
    "line", ["import helper", "from helper import x", "from . import helper", "from .helper import x"]
)
def test_an_analysis_that_imports_its_neighbours_is_refused(tmp_path: Path, line: str) -> None:
    """Only its own source is in the key: an edited helper would leave the old numbers standing."""
    (tmp_path / "helper.py").write_text("x = 1\n")
    beside(tmp_path, f"{line}\n{SOURCE}")
    with pytest.raises(StudyError, match=r"one.py:1: it imports .* beside it"):
        find_analysis("one", tmp_path)


@pytest.mark.parametrize("name", ["test_one", "one_test", "conftest"])
def test_a_name_that_pytest_would_collect_is_refused(tmp_path: Path, name: str) -> None:
    """An analysis among the gates must be no test."""
    beside(tmp_path, name=name)
    with pytest.raises(StudyError, match="for tests"):
        find_analysis(name, tmp_path)


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "large"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    """What a link leads to would not be registered."""
    file = tmp_path / "one.py"
    if kind == "folder":
        file.mkdir()
    elif kind == "large":
        file.write_bytes(b"#" * 5_000_001)
    else:
        if kind == "link":
            beside(tmp_path, name="real")
        file.symlink_to(tmp_path / "real.py")
    with pytest.raises(StudyError):
        find_analysis("one", tmp_path)


@pytest.mark.parametrize("name", ["statistics", "random", "prereg", "numpy"])
def test_a_name_that_others_import_is_refused(tmp_path: Path, name: str) -> None:
    """Pytest puts the gates' folder first on the path."""
    beside(tmp_path, name=name)
    with pytest.raises(StudyError, match=f"whoever imports {name} would get it"):
        find_analysis(name, tmp_path)


# -- what it rests on -------------------------------------------------------------------------------------------


def leaning(tmp_path: Path, on: str) -> OwnAnalysis:
    """Return an analysis that imports something."""
    study = tmp_path / "study"
    study.mkdir(exist_ok=True)
    spec = find_analysis("one", beside(study, f"import {on}\n{SOURCE}").parent)
    assert isinstance(spec, OwnAnalysis)
    return spec


def test_code_that_is_not_installed_is_pinned_with_what_it_imports_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module on the path, say, and its neighbour: an edit of either is another analysis."""
    (tmp_path / "lens_kit_a.py").write_text("import lens_kit_b\nfactor = lens_kit_b.factor\n")
    (tmp_path / "lens_kit_b.py").write_text("factor = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = leaning(tmp_path, "lens_kit_a")
    assert sorted(rests_on(spec)) == ["lens_kit_a.py", "lens_kit_b.py", "one.py"]
    (tmp_path / "lens_kit_b.py").write_text("factor = 0.5\n")
    assert leaning(tmp_path, "lens_kit_a").digest != spec.digest


def test_an_installed_distribution_is_pinned_by_the_record_of_its_files(tmp_path: Path) -> None:
    """By name and version; another release is another analysis."""
    (name,) = set(rests_on(leaning(tmp_path, "rich.text"))) - {"one.py"}
    assert name == f"rich {version('rich')}"


def test_what_the_own_analyses_of_prereg_use_is_pinned_elsewhere(tmp_path: Path) -> None:
    """Versions of numpy and the like are components of their own; the standard library is Python's."""
    assert list(rests_on(leaning(tmp_path, "numpy.linalg, scipy, json, prereg.workers"))) == ["one.py"]


def test_a_package_that_comes_later_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that is tried and caught changes what is measured once it works."""
    before = leaning(tmp_path, "lens_kit_c")
    assert rests_on(before)["lens_kit_c"] == "absent"
    (tmp_path / "lens_kit_c.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert leaning(tmp_path, "lens_kit_c").digest != before.digest


def test_the_module_that_measures_is_a_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files, another entry point: another analysis."""
    installed(tmp_path / "site", monkeypatch, __init__="", one=SOURCE, two=SOURCE)
    spec = find_analysis("one", tmp_path)
    points = tmp_path / "site" / "lens_kit-1.0.dist-info" / "entry_points.txt"
    points.write_text("[prereg.analyses]\none = lens_kit.two\n")
    assert find_analysis("one", tmp_path).digest != spec.digest


@pytest.mark.parametrize("kind", ["bytecode", "compiled", "linked folder", "edited", "replaced in memory"])
def test_what_runs_of_a_package_is_what_was_digested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whatever else lies there, or was imported before."""
    one = "from lens_kit import helper\n" + SOURCE.replace("times *", "helper.factor * times *")
    installed(tmp_path / "site", monkeypatch, __init__="", one=one, helper="factor = 1.0\n")
    folder = tmp_path / "site" / "lens_kit"
    if kind == "bytecode":
        stale = folder / "stale.py"
        stale.write_text("factor = 0.5\n")
        cached = cache_from_source(str(folder / "helper.py"))
        py_compile.compile(
            str(stale), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        stale.unlink()
    elif kind == "compiled":
        (folder / f"helper{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library at all")
    elif kind == "replaced in memory":
        importlib.import_module("lens_kit.helper").factor = 0.5
    spec = find_analysis("one", tmp_path)
    if kind == "edited":
        (folder / "helper.py").write_text("factor = 0.5\n")
    elif kind == "linked folder":
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "__init__.py").write_text("")
        (folder / "sub").symlink_to(tmp_path / "outside")
    assert spec.load().helper.factor == 1.0
    if kind == "linked folder":
        with serving.served(spec.sources), pytest.raises(ModuleNotFoundError, match="nothing would pin it"):
            importlib.import_module("lens_kit.sub")
    if kind == "replaced in memory":
        assert importlib.import_module("lens_kit.helper").factor == 0.5, "others lost their module"

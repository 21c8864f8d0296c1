"""Whatever is put in the place of prereg's own functions is found, before the first look and after it."""

from __future__ import annotations

import builtins
import functools
import math
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import prereg.evidence
import prereg.inference
import prereg.report.tables
import prereg.study
from prereg.errors import StudyError
from prereg.inference import verdict as deciding_alone
from prereg.pytest_plugin.defined import defined_by
from prereg.pytest_plugin.tamper import Integrity
from prereg.study import records, settling
from prereg.study import study as studying


def fake(*_: object, **__: object) -> Any:
    return None


class Fake:
    pass


@functools.wraps(deciding_alone.decide_conjunction)
def wrapped(*_: object, **__: object) -> Any:
    return None


PATCHES: dict[str, tuple[object, str, object]] = {
    "prereg.study.settling.decide_conjunction": (settling, "decide_conjunction", fake),
    "prereg.inference.verdict.decide_conjunction": (deciding_alone, "decide_conjunction", wrapped),
    "prereg.inference.headline_intervals_many": (prereg.inference, "headline_intervals_many", fake),
    "prereg.study.study.Study.verdict": (studying.Study, "verdict", fake),
    "prereg.study.study.Study.open": (studying.Study, "open", classmethod(fake)),
    "prereg.study.study.Study._decide": (studying.Study, "_decide", fake),
    "prereg.study.Study": (prereg.study, "Study", Fake),
    "prereg.study.records.Verdict.supported": (records.Verdict, "supported", property(fake)),
    "prereg.study.records.Verdict.outcome": (records.Verdict, "outcome", property(fake)),
    "prereg.study.records.Verdict.as_record": (records.Verdict, "as_record", fake),
    "prereg.study.records.Verdict.__getattribute__": (records.Verdict, "__getattribute__", fake),
    "prereg.evidence.read_evidence": (prereg.evidence, "read_evidence", fake),
    "prereg.report.tables.write_report": (prereg.report.tables, "write_report", fake),
    "prereg.inference.verdict.MINIMUM_UNITS": (deciding_alone, "MINIMUM_UNITS", 1),
    "prereg.inference.verdict._TOLERANCE": (deciding_alone, "_TOLERANCE", 0.5),
    "prereg.inference.verdict.all": (deciding_alone, "all", fake),
    "prereg.inference.verdict.Outcome.__eq__": (deciding_alone.Outcome, "__eq__", fake),
    "prereg.inference.verdict.Outcome.__bool__": (deciding_alone.Outcome, "__bool__", fake),
    "numpy.hstack": (np, "hstack", fake),
    "numpy.lexsort": (np, "lexsort", eval("lambda *_: 0")),  # noqa: S307
    "numpy.random.default_rng": (np.random, "default_rng", functools.partial(fake)),
    "math.isfinite": (math, "isfinite", fake),
    "builtins.sorted": (builtins, "sorted", lambda x, **_: list(x)),
}


def test_prereg_as_it_is_has_no_fault() -> None:
    """No decorator, dataclass, enumeration or lazy import of ours looks like a patch; a second look neither."""
    integrity = Integrity()
    assert integrity.faults() == ()
    assert integrity.faults(libraries=True) == ()
    assert integrity.explain() is None


@pytest.mark.parametrize("looked", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("where", PATCHES)
def test_a_patch_is_named(where: str, looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function, method, class, constant, library function or builtin, before the first look or after it."""
    holder, name, value = PATCHES[where]
    integrity = Integrity()
    if looked:
        assert integrity.faults() == ()
    with monkeypatch.context() as patch:
        patch.setattr(holder, name, value, raising=False)
        found = integrity.faults(libraries=True)
    assert any(fault.startswith(where) for fault in found), found
    assert where in str(integrity.explain()) or len(found) > 3


def test_a_fault_stays_after_the_patch_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch for a moment is enough to distrust the session."""
    integrity = Integrity()
    with monkeypatch.context() as patch:
        patch.setattr(settling, "decide_conjunction", fake)
        integrity.faults()
    assert integrity.faults()
    assert "decide_conjunction" in str(integrity.explain())


@pytest.mark.parametrize("looked", [False, True], ids=["before", "after"])
def test_code_that_was_changed_in_place_is_named(looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function object with another body."""
    integrity = Integrity()
    if looked:
        integrity.faults()
    with monkeypatch.context() as patch:
        patch.setattr(deciding_alone.decide, "__code__", fake.__code__)
        found = integrity.faults()
    assert any("prereg.inference.verdict.decide " in fault for fault in found)


def test_defaults_and_globals_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same body with other defaults, or another place to look names up."""
    integrity = Integrity()
    integrity.faults()
    function = deciding_alone.decide_conjunction
    with monkeypatch.context() as patch:
        patch.setitem(function.__kwdefaults__, "min_units", -1)
        assert any("decide_conjunction was changed" in fault for fault in integrity.faults())
    elsewhere = FunctionType(deciding_alone.decide.__code__, dict(vars(deciding_alone)), "decide")
    with monkeypatch.context() as patch:
        patch.setattr(deciding_alone, "decide", elsewhere)
        assert any("verdict.decide is not what its file" in fault for fault in Integrity().faults())


@pytest.mark.parametrize("looked", [False, True], ids=["before", "after"])
def test_an_outcome_that_means_another_is_named(looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of the enumeration whose value was swapped."""
    integrity = Integrity()
    if looked:
        integrity.faults()
    with monkeypatch.context() as patch:
        patch.setattr(deciding_alone.Outcome.REFUTED, "_value_", "supported")
        found = integrity.faults()
    assert any("Outcome.REFUTED is 'supported'" in fault for fault in found)


@pytest.mark.parametrize("looked", [False, True], ids=["before", "after"])
def test_a_module_that_was_swapped_is_named(looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another module under a name of ours."""
    integrity = Integrity()
    if looked:
        integrity.faults()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "prereg.study.frames", ModuleType("prereg.study.frames"))
        found = integrity.faults()
    assert any("prereg.study.frames" in fault for fault in found)


def test_a_file_tells_what_it_defines(tmp_path: Path) -> None:
    """Functions, accessors, classes, imports by every spelling, and constants that are bound once."""
    file = tmp_path / "sample.py"
    file.write_text(
        "from __future__ import annotations\nimport json\nimport os.path\nimport os.path as path\n"
        "from json import dumps as write, loads\nONE = 1\nTWICE = 1\nTWICE = 2\nMADE = [1]\n"
        "def plain(): return lambda: 1\n"
        "class Thing:\n    kind = 'thing'\n    @property\n    def x(self): return 1\n    @x.setter\n"
        "    def x(self, value): pass\n    class Inner:\n        def y(self): pass\n"
    )
    found = defined_by("sample", file)
    assert list(found.functions) == ["plain"]
    assert len(found.classes["Thing"].functions["x"]) == 2
    assert list(found.classes["Thing"].classes["Inner"].functions) == ["y"]
    assert found.classes["Thing"].constants["kind"] == "thing"
    assert found.constants["ONE"] == 1
    assert not {"TWICE", "MADE"} & set(found.constants)
    assert {k: v for k, v in found.imports.items() if k != "annotations"} == {
        "json": ("json", None),
        "os": ("os.path", None),
        "path": ("os.path", "path"),
        "write": ("json", "dumps"),
        "loads": ("json", "loads"),
    }
    assert {"plain", "Thing", "MADE"} <= found.names


def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """Neither a missing file nor a broken one passes for an empty one."""
    with pytest.raises(StudyError, match="can't be read"):
        defined_by("sample", tmp_path / "missing.py")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    with pytest.raises(StudyError, match="can't be read"):
        defined_by("sample", tmp_path / "broken.py")

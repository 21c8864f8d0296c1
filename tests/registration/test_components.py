"""Components by digest: what counts as the same file, and what can't pass for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.protocol import read_protocol
from prereg.registration import components
from prereg.registration.components import (
    LIBRARIES,
    code_digests,
    code_now,
    differing,
    facts_digests,
    gate_digests,
    gate_functions,
    gates_now,
    library_versions,
    public_version,
)
from tests.frozen import written


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one gate, a helper in a folder below, and a conftest above."""
    study = tmp_path / "gates" / "study"
    (study / "more").mkdir(parents=True)
    (study / "test_h1.py").write_text("def test_h1(): ...\n", newline="\n")
    (study / "more" / "helper.py").write_text("x = 1\n", newline="\n")
    (study / "notes.txt").write_text("no gate\n")
    (tmp_path / "conftest.py").write_text("")
    return tmp_path


def test_python_files_below_and_conftests_above_are_gates(root: Path) -> None:
    """What pytest would run, by path from the project's root; notes are none."""
    found = gate_digests(root / "gates" / "study", root)
    assert list(found) == ["gates/study/more/helper.py", "gates/study/test_h1.py", "conftest.py"]


def test_line_ends_are_no_edit(root: Path) -> None:
    """A checkout on another system has the same digests; a lone CR is an edit."""
    before = gate_digests(root / "gates" / "study", root)
    file = root / "gates" / "study" / "test_h1.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert gate_digests(root / "gates" / "study", root) == before
    file.write_bytes(file.read_bytes().replace(b"\r\n", b"\r"))
    assert gate_digests(root / "gates" / "study", root) != before


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe", "large", "linked folder"])
def test_what_is_no_plain_source_is_refused_and_named(root: Path, kind: str, tmp_path: Path) -> None:
    """By the freeze as an error, by a standing as a file without a digest: never passed over."""
    study = root / "gates" / "study"
    file = study / "test_x.py"
    if kind == "link":
        file.symlink_to(study / "test_h1.py")
    elif kind == "dangling link":
        file.symlink_to("nowhere.py")
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "large":
        file.write_bytes(b"#" * 5_000_001)
    else:
        file = study / "linked"
        file.symlink_to(root, target_is_directory=True)
    with pytest.raises(RegistrationError, match=file.name):
        gate_digests(study, root)
    now = gates_now(study, root)
    assert now[f"gates/study/{file.name}"] is None
    assert now["gates/study/test_h1.py"] is not None


def test_a_study_outside_the_project_is_refused(root: Path) -> None:
    """Its files could not be named."""
    with pytest.raises(RegistrationError, match="outside the project"):
        gate_digests(root / "gates", root / "gates" / "study")


def test_too_many_files_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on what each run would read."""
    monkeypatch.setattr(components, "MAX_GATE_FILES", 1)
    with pytest.raises(RegistrationError, match="more than 1 Python files"):
        gate_digests(root / "gates" / "study", root)


@pytest.mark.parametrize("raw", [b"def (:\n", b"x = 1\0\n", b"\xff\xfe", b"(" * 100_000])
def test_a_gate_that_cannot_be_parsed_is_named(root: Path, raw: bytes) -> None:
    """Broken syntax, a NUL, no text, nesting beyond the parser: an error of prereg's, no traceback."""
    (root / "gates" / "study" / "test_x.py").write_bytes(raw)
    with pytest.raises(RegistrationError, match=r"test_x\.py: not Python"):
        gate_functions(root / "gates" / "study")


def test_gate_functions_are_those_that_pytest_collects(root: Path) -> None:
    """In test files, at the top, under an if, in a class; not in a function, and not in a helper."""
    study = root / "gates" / "study"
    (study / "test_x.py").write_text(
        "if True:\n    def test_a(): ...\nclass T:\n    def test_b(self): ...\n    async def test_c(self): ...\n"
        "def outer():\n    def test_d(): ...\n"
    )
    (study / "x_test.py").write_text("def test_e(): ...\n")
    (study / "more" / "helper.py").write_text("def test_f(): ...\n")
    assert sorted(gate_functions(study)) == ["test_a", "test_b", "test_c", "test_e", "test_h1"]


# -- code -----------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two modules in place of prereg."""
    folder = tmp_path / "site" / "prereg"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "one.py").write_text("x = 1\n", newline="\n")
    (folder / "part" / "two.py").write_text("x = 2\n", newline="\n")
    monkeypatch.setattr(components, "PACKAGE", folder)
    return folder


ONE, TWO = "prereg/part/one.py", "prereg/part/two.py"


def test_a_changed_or_missing_module_differs(package: Path) -> None:
    """By name; line ends are no change."""
    frozen = {k: v for k, v in code_now([ONE, TWO]).items() if v is not None}
    assert differing(frozen, code_now(frozen)) == ()
    (package / "part" / "one.py").write_bytes(b"x = 1\r\n")
    assert differing(frozen, code_now(frozen)) == ()
    (package / "part" / "one.py").write_text("x = 3\n")
    (package / "part" / "two.py").unlink()
    assert differing(frozen, code_now(frozen)) == (ONE, TWO)


@pytest.mark.parametrize(
    "shadow", ["one/__init__.py", "one.cpython-311-x86_64-linux-gnu.so", "one.so", "one.pyd"]
)
def test_a_module_that_another_would_be_imported_for_differs(package: Path, shadow: str) -> None:
    """Python prefers a package and an extension: the untouched source beside it would be a blind."""
    file = package / "part" / shadow
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")
    assert code_now([ONE, TWO])[ONE] is None
    assert code_now([ONE, TWO])[TWO] is not None


@pytest.mark.parametrize(
    "name",
    ["prereg/../../secret.py", "/etc/passwd.py", "other/part/one.py", "prereg/part/one.txt", "prereg/part",
     "prereg/\0.py", "", "prereg/part/../part/one.py", "prereg/" + "x" * 5000 + ".py"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_has_no_digest(package: Path, name: str) -> None:
    """Names come from a file that anyone may have written; nothing outside the package is read."""
    (package.parent / "secret.py").write_text("x = 1\n")
    assert code_now([name]) == {name: None}


def test_the_real_package_is_pinned_by_its_analyses(tmp_path: Path) -> None:
    """Modules that only another analysis reaches are none of this study's."""
    found = code_digests(read_protocol(written(tmp_path)))
    assert "prereg/analysis/kernels.py" in found
    assert differing(found, code_now(found)) == ()


# -- facts, libraries, comparison -----------------------------------------------------------------------------


def test_facts_are_digested_byte_by_byte(tmp_path: Path) -> None:
    """They are bound by the protocol as they are."""
    protocol = read_protocol(written(tmp_path)).protocol
    before = facts_digests(protocol, tmp_path)
    assert before["facts.csv"] == protocol.facts.sha256
    (tmp_path / "facts.csv").write_bytes((tmp_path / "facts.csv").read_bytes() + b" ")
    assert facts_digests(protocol, tmp_path)["facts.csv"] != before["facts.csv"]


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "link out", "large"])
def test_facts_that_are_no_file_here_have_no_digest(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for, nothing outside the project is read, nothing endless is hashed."""
    root = tmp_path / "project"
    protocol = read_protocol(written(root)).protocol
    file = root / "facts.csv"
    if kind == "large":
        monkeypatch.setattr(components, "MAX_FACTS", 3)
    else:
        file.rename(tmp_path / "facts.csv")
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "link out":
        file.symlink_to(tmp_path / "facts.csv")
    assert facts_digests(protocol, root)["facts.csv"] is None


def test_library_versions_are_public_ones() -> None:
    """A build for another machine is no other version."""
    assert public_version("2.13.0+cpu") == "2.13.0"
    found = library_versions()
    assert set(found) <= set(LIBRARIES)
    assert all(version == public_version(version) for version in found.values())


def test_what_is_new_or_unreadable_differs() -> None:
    """Also a new file that can't be read: None is no digest, and no absence either."""
    frozen = {"same": "a", "changed": "a", "gone": "a", "unreadable": "a"}
    present = {"same": "a", "changed": "b", "unreadable": None, "new": "a", "new unreadable": None}
    assert differing(frozen, present) == ("changed", "gone", "new", "new unreadable", "unreadable")

"""`prereg amend`: it names all that changed and nothing else, and overwrites nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prereg.errors import PreregError, RegistrationError
from prereg.registration import components
from prereg.registration.amend import amend, subject_of
from prereg.registration.chain import read_chain
from prereg.registration.records import Amendment, Known
from tests.frozen import H9, added, answered, edit, frozen, standing, written
from tests.synthetic import PRECISION, commit, prepared

REASON = "It was read off the wrong table."
SAID = "H1 was refuted on pythia-tiny by a hair."


def made(root: Path, *subjects: str, known: Known = "none", statement: str | None = None) -> Amendment:
    return amend(prepared(root), subjects, reason=REASON, known=known, statement=statement)


def refused(
    root: Path, *subjects: str, match: str, known: Known = "none", statement: str | None = None
) -> PreregError:
    """Amend, and return the refusal; nothing may have been written."""
    place = root / "gates" / "sample" / "amendments"
    before = sorted(f.name for f in place.iterdir()) if place.is_dir() else None
    with pytest.raises(PreregError, match=match) as caught:
        made(root, *subjects, known=known, statement=statement)
    assert (sorted(f.name for f in place.iterdir()) if place.is_dir() else None) == before
    return caught.value


def loosen(root: Path, old: str = "0.1", new: str = "0.05") -> None:
    edit(root / "gates" / "sample" / "protocol.toml", f"threshold = {old}\n", f"threshold = {new}\n")


def test_an_amendment_says_what_changed_and_links_to_the_one_before(tmp_path: Path) -> None:
    """Old and new value, the effect, the reason, the root it follows; the freeze's file is untouched."""
    folder = frozen(tmp_path)
    before = (folder / "registration.json").read_bytes()
    chain = read_chain(folder)
    loosen(tmp_path)
    found = made(tmp_path, "H1")
    [change] = found.changes
    assert (change.key, change.old, change.new, change.effect) == (
        "hypotheses.H1.threshold",
        0.1,
        0.05,
        "looser",
    )
    assert chain is not None
    assert found.previous == chain.registration.root
    assert (found.number, found.reason, found.known, found.files) == (1, REASON, "none", ())
    assert [f.name for f in (folder / "amendments").iterdir()] == [f"0001-{found.root[:8]}.json"]
    assert (folder / "registration.json").read_bytes() == before


def test_two_in_a_row(tmp_path: Path) -> None:
    """The second compares with the first, and is in force."""
    frozen(tmp_path)
    loosen(tmp_path)
    first = added(tmp_path, "H1")
    loosen(tmp_path, "0.05", "0.2")
    second = added(tmp_path, "H1")
    assert (second.number, second.previous) == (2, first.root)
    assert (second.changes[0].old, second.changes[0].new) == (0.05, 0.2)
    assert standing(tmp_path).status == "registered"
    assert standing(tmp_path).root == second.root


def test_nothing_changed_is_refused(tmp_path: Path) -> None:
    """Also where only comments, spelling or line ends did."""
    folder = frozen(tmp_path)
    refused(tmp_path, "H1", match="nothing differs")
    file = folder / "protocol.toml"
    file.write_bytes(b"# A comment.\n" + file.read_bytes().replace(b"\n", b"\r\n").replace(b"0.95", b"95e-2"))
    refused(tmp_path, "H1", match="nothing differs")


def test_an_unregistered_study_is_refused(tmp_path: Path) -> None:
    """There is nothing to amend yet."""
    written(tmp_path)
    assert "prereg freeze" in str(refused(tmp_path, "H1", match="not registered").remedy)


def test_a_silent_change_is_refused(tmp_path: Path) -> None:
    """What no subject names is said, with its old and new value."""
    folder = frozen(tmp_path)
    loosen(tmp_path)
    edit(folder / "protocol.toml", "level = 0.95", "level = 0.9")
    error = refused(tmp_path, "H1", match="no subject names it")
    assert "inference.level: 0.95 -> 0.9" in str(error)
    assert "H1 inference" in str(error.remedy)


@pytest.mark.parametrize("idle", ["H1-order", "gates", "H9", "", "controls.sane"])
def test_an_idle_subject_is_refused(tmp_path: Path, idle: str) -> None:
    """A name for which nothing changed would mislead."""
    frozen(tmp_path)
    loosen(tmp_path)
    refused(tmp_path, "H1", idle, match="nothing about")


def test_no_subject_is_refused(tmp_path: Path) -> None:
    """Everything that changed must be named."""
    frozen(tmp_path)
    loosen(tmp_path)
    refused(tmp_path, match="no subject names it")


@pytest.mark.parametrize("reason", ["", "Oops", "An oversight."])
def test_a_reason_is_a_sentence(tmp_path: Path, reason: str) -> None:
    """A word or two explain nothing."""
    frozen(tmp_path)
    loosen(tmp_path)
    with pytest.raises(RegistrationError, match="reason"):
        amend(prepared(tmp_path), ["H1"], reason=reason, known="none", statement=None)


# -- components other than the promise ------------------------------------------------------------------------


def test_an_edited_gate(tmp_path: Path) -> None:
    """Unverified until it is amended; then registered again."""
    folder = frozen(tmp_path)
    edit(folder / "test_h1.py", "The claim holds.", "The claim still holds.")
    commit(tmp_path, "Reword")
    assert standing(tmp_path).status == "unverified"
    found = added(tmp_path, "gates")
    [file] = found.files
    assert (file.component, file.name) == ("gates", "gates/sample/test_h1.py")
    assert file.old != file.new
    assert found.changes == ()
    assert standing(tmp_path).status == "registered"


def test_a_gate_more_and_a_gate_less(tmp_path: Path) -> None:
    """None stands for absence."""
    folder = frozen(tmp_path)
    (folder / "conftest.py").write_text("")
    (folder / "test_h1.py").unlink()
    files = {f.name: (f.old is None, f.new is None) for f in added(tmp_path, "gates").files}
    assert files == {"gates/sample/conftest.py": (True, False), "gates/sample/test_h1.py": (False, True)}


def test_other_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version is named, old and new."""
    frozen(tmp_path)
    versions = components.library_versions() | {"torch": "9.9.9"}
    monkeypatch.setattr("prereg.registration.freeze.library_versions", lambda: versions)
    [file] = made(tmp_path, "libraries").files
    assert (file.component, file.name, file.new) == ("libraries", "torch", "9.9.9")


def test_other_models(tmp_path: Path) -> None:
    """One more, and another revision."""
    frozen(tmp_path)
    study = prepared(tmp_path)
    models = {**study.models, "pythia-tiny": "another", "new-model": "main"}
    from dataclasses import replace

    found = amend(replace(study, models=models), ["models"], reason=REASON, known="none", statement=None)
    assert {f.name: f.new for f in found.files} == {"new-model": "main", "pythia-tiny": "another"}


def test_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of this package that a verdict runs through."""
    folder = frozen(tmp_path)
    chain = read_chain(folder)
    assert chain is not None
    code = {**chain.registration.components.code, "prereg/study/study.py": "a" * 64}
    monkeypatch.setattr("prereg.registration.freeze.code_digests", lambda _: code)
    assert [f.name for f in made(tmp_path, "code").files] == ["prereg/study/study.py"]


# -- what an amendment may not be the way around --------------------------------------------------------------


def test_attempts_were_known(tmp_path: Path) -> None:
    """After results, ignorance is refused; with a statement the amendment is taken."""
    answered(tmp_path)
    loosen(tmp_path)
    refused(tmp_path, "H1", match="on record already, on pythia-tiny")
    refused(tmp_path, "H1", match="no statement", known="full")
    assert made(tmp_path, "H1", known="full", statement=SAID).known == "full"


@pytest.mark.parametrize("keep", ["reports", "attempts", "nothing"])
def test_attempts_that_were_removed_were_known_too(tmp_path: Path, keep: str) -> None:
    """Neither emptying the log nor removing the tables makes anyone forget; git has both."""
    folder = answered(tmp_path)
    if keep != "attempts":
        shutil.rmtree(folder / "attempts")
    if keep != "reports":
        shutil.rmtree(tmp_path / "reports")
    commit(tmp_path, "Tidy up")
    loosen(tmp_path)
    refused(tmp_path, "H1", match="on record already")


def test_a_damaged_log_is_no_empty_one(tmp_path: Path) -> None:
    """Who can't read the attempts can't say that there were none."""
    folder = frozen(tmp_path)
    (folder / "attempts").mkdir()
    (folder / "attempts" / f"{'ab' * 32}.json").write_text("[]")
    loosen(tmp_path)
    refused(tmp_path, "H1", match="the attempts log is damaged")


def test_nobody_knows_less_than_before(tmp_path: Path) -> None:
    """After an amendment that knew a pilot none can claim to know nothing."""
    frozen(tmp_path)
    loosen(tmp_path)
    added(tmp_path, "H1", known="pilot", statement=SAID)
    loosen(tmp_path, "0.05", "0.2")
    assert "--known pilot" in str(refused(tmp_path, "H1", match="nobody knows less now").remedy)


def test_an_equivalence_that_noise_would_meet_is_refused(tmp_path: Path) -> None:
    """What a freeze refuses, an amendment refuses as well: no precision, or a margin within the noise."""
    folder = frozen(tmp_path)
    file = folder / "protocol.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace(PRECISION, ""), "utf-8")
    refused(tmp_path, "H1-order", match="how finely")
    file.write_text(text.replace("standard_error = 0.001", "standard_error = 0.1"), "utf-8")
    refused(tmp_path, "H1-order", match="hypotheses.H1-order")


def test_a_chain_with_a_fault_is_not_added_to(tmp_path: Path) -> None:
    """It would be mended over."""
    folder = frozen(tmp_path)
    loosen(tmp_path)
    added(tmp_path, "H1")
    loosen(tmp_path, "0.05", "0.2")
    added(tmp_path, "H1")
    next(iter(sorted((folder / "amendments").iterdir()))).unlink()
    loosen(tmp_path, "0.2", "0.3")
    refused(tmp_path, "H1", match="an amendment before it is missing")


def test_a_study_keeps_its_name(tmp_path: Path) -> None:
    """Under another one its results on record would not be looked for."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", 'name = "sample"', 'name = "another"')
    refused(tmp_path, "study", match="another study")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A folder of amendments that leads out of the study gets none."""
    root, other = tmp_path / "project", tmp_path / "other"
    folder = frozen(root)
    other.mkdir()
    (folder / "amendments").symlink_to(other)
    loosen(root)
    with pytest.raises(RegistrationError, match="not a folder of the study's own"):
        made(root, "H1")
    assert not list(other.iterdir())


def test_a_withdrawn_and_an_added_hypothesis_are_subjects(tmp_path: Path) -> None:
    """By their ids."""
    folder = frozen(tmp_path)
    file = folder / "protocol.toml"
    text = file.read_text("utf-8")
    file.write_text(text[: text.index("[hypotheses.H1-order]")] + text[text.index("[published.H1]") :].partition(
        "[hypotheses.H1-order.precision]")[0] + H9, "utf-8")  # fmt: skip
    found = made(tmp_path, "H1-order", "H9")
    assert {(c.key.split(".")[1], c.effect) for c in found.changes} == {
        ("H1-order", "other"),
        ("H9", "looser"),
    }


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        (("hypotheses", "H1", "threshold"), "H1"),
        (("controls", "sane", "threshold"), "controls.sane"),
        (("analyses", "kernels", "orders"), "analyses.kernels"),
        (("updates", "deep", "last"), "updates.deep"),
        (("published", "H1"), "published.H1"),
        (("inference", "level"), "inference"),
        (("facts", "worlds", "m", "path"), "facts"),
    ],
)
def test_each_change_has_its_subject(path: tuple[str, ...], subject: str) -> None:
    """A hypothesis by its id, else the table's name."""
    from prereg.protocol.changes import Change

    assert subject_of(Change(".".join(path), 1, 2, "other", "", path)) == subject

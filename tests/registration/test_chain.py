"""The chain of a registration and its amendments: its order, its faults, and what it says of a hypothesis."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prereg.protocol import read_protocol
from prereg.registration.amend import amend
from prereg.registration.chain import Chain, read_chain
from prereg.registration.records import Known, sealed, write_record
from tests.frozen import H9, added, edit, frozen
from tests.synthetic import commit, git, prepared

SAID = "The pilot's estimate was 0.4 on twenty prompts."


def chain_of(folder: Path) -> Chain:
    found = read_chain(folder)
    assert found is not None
    return found


def threshold(folder: Path, old: str, new: str) -> None:
    edit(folder / "protocol.toml", f"threshold = {old}\n", f"threshold = {new}\n")


def loosened(root: Path, old: str, new: str, known: Known = "none") -> str:
    threshold(root / "gates" / "sample", old, new)
    return added(root, "H1", known=known, statement=None if known == "none" else SAID).root


def test_without_a_registration_there_is_no_chain(tmp_path: Path) -> None:
    """Absence is an answer."""
    assert read_chain(tmp_path) is None


def test_amendments_follow_each_other(tmp_path: Path) -> None:
    """By digest and number; the last one is in force."""
    folder = frozen(tmp_path)
    roots = [
        chain_of(folder).registration.root,
        loosened(tmp_path, "0.1", "0.2"),
        loosened(tmp_path, "0.2", "0.3"),
    ]
    chain = chain_of(folder)
    assert list(chain.roots) == roots
    assert chain.current.root == roots[-1]
    assert chain.fault() is None
    assert chain.differs(read_protocol(folder).protocol) == ()
    assert chain.original.protocol.hypotheses["H1"].threshold == 0.1


def test_two_branches_that_amend_are_a_fault(tmp_path: Path) -> None:
    """A merge takes both files, git is content, and the chain says which meet."""
    folder = frozen(tmp_path)
    git(tmp_path, "switch", "--quiet", "--create", "other")
    loosened(tmp_path, "0.1", "0.2")
    git(tmp_path, "switch", "--quiet", "main")
    edit(folder / "test_h1.py", "The claim holds.", "It holds.")
    added(tmp_path, "gates")
    git(tmp_path, "merge", "--quiet", "other", "--message", "Merge")
    fault = chain_of(folder).fault()
    assert fault is not None
    assert "follow the same one" in fault
    assert chain_of(folder).amendments == ()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_gap_is_a_fault(tmp_path: Path, gone: int) -> None:
    """Whether the first or the second of three was deleted."""
    folder = frozen(tmp_path)
    for old, new in (("0.1", "0.2"), ("0.2", "0.3"), ("0.3", "0.4")):
        loosened(tmp_path, old, new)
    sorted((folder / "amendments").iterdir())[gone].unlink()
    chain = chain_of(folder)
    assert len(chain.amendments) == gone
    assert len(chain.stray) == 2 - gone
    assert "an amendment before it is missing" in str(chain.fault())


def test_the_last_amendment_deleted_leaves_a_whole_chain_that_the_protocol_contradicts(
    tmp_path: Path,
) -> None:
    """What can't be seen in the chain is seen against the protocol."""
    folder = frozen(tmp_path)
    loosened(tmp_path, "0.1", "0.2")
    shutil.rmtree(folder / "amendments")
    chain = chain_of(folder)
    assert chain.fault() is None
    assert [c.key for c in chain.differs(read_protocol(folder).protocol)] == ["hypotheses.H1.threshold"]


def test_a_wrong_number_is_a_fault(tmp_path: Path) -> None:
    """A link that follows the right one but counts wrong was made by hand."""
    folder = frozen(tmp_path)
    threshold(folder, "0.1", "0.2")
    found = amend(
        prepared(tmp_path), ["H1"], reason="It was read off the wrong table.", known="none", statement=None
    )
    shutil.rmtree(folder / "amendments")
    other = sealed(type(found), found.content() | {"number": 2})
    write_record(folder / "amendments" / other.file_name, other)
    assert chain_of(folder).fault() is not None


def test_an_amendment_of_another_study_is_a_fault(tmp_path: Path) -> None:
    """Copied over, its digests lead nowhere here."""
    one, two = tmp_path / "one", tmp_path / "two"
    folder, other = frozen(one), frozen(two)
    edit(other / "test_h1.py", "The claim holds.", "It holds.")
    added(two, "gates")
    threshold(other, "0.1", "0.2")
    added(two, "H1")
    last = sorted((other / "amendments").iterdir())[-1]
    (folder / "amendments").mkdir()
    shutil.copy(last, folder / "amendments")
    assert "missing" in str(chain_of(folder).fault())


def test_changed_there_and_back_is_not_amended(tmp_path: Path) -> None:
    """Two amendments that undo each other leave one promise, and both on record."""
    folder = frozen(tmp_path)
    loosened(tmp_path, "0.1", "0.05")
    assert [c.key for c in chain_of(folder).amended] == ["hypotheses.H1.threshold"]
    loosened(tmp_path, "0.05", "0.1", "pilot")
    chain = chain_of(folder)
    assert chain.amended == ()
    assert chain.concerns("H1") == ()
    assert len(chain.amendments) == 2
    assert chain.known == "pilot"


def test_wording_concerns_no_hypothesis(tmp_path: Path) -> None:
    """A better rationale is no second promise."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "A tenth is the least worth reporting.", "A tenth is worth a report.")
    added(tmp_path, "H1")
    chain = chain_of(folder)
    assert chain.amendments[0].changes[0].effect == "wording"
    assert chain.concerns("H1") == ()
    assert chain.original.digest != read_protocol(folder).digest


@pytest.mark.parametrize(
    ("old", "new", "subject", "concerned"),
    [
        ("threshold = 0.1\n", "threshold = 0.2\n", "H1", {"H1"}),
        ("threshold = 0.02\nrationale = \"More", "threshold = 0.03\nrationale = \"More", "controls.sane", {"H1"}),
        ("level = 0.95", "level = 0.9", "inference", {"H1", "H1-order"}),
        ("held_out = 0.5", "held_out = 0.4", "split", {"H1", "H1-order"}),
        ("orders = [1, 2]", "orders = [1, 2, 3]", "analyses.kernels", {"H1", "H1-order"}),
        ('value = "0.5"', 'value = "0.6"', "published.H1", set()),
    ],
)  # fmt: skip
def test_a_change_concerns_those_whose_answer_it_can_move(
    tmp_path: Path, old: str, new: str, subject: str, concerned: set[str]
) -> None:
    """A hypothesis' own, a control's those that name it, the common tables all."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", old, new)
    added(tmp_path, subject)
    chain = chain_of(folder)
    assert {name for name in ("H1", "H1-order") if chain.concerns(name)} == concerned


def test_an_added_hypothesis_is_known_as_one(tmp_path: Path) -> None:
    """Also when it is amended again, and not one that was withdrawn and came back."""
    folder = frozen(tmp_path)
    file = folder / "protocol.toml"
    text = file.read_text("utf-8")
    file.write_text(text + H9, "utf-8")
    added(tmp_path, "H9")
    chain = chain_of(folder)
    assert chain.is_added("H9")
    assert not chain.is_added("H1")


# -- what was known -------------------------------------------------------------------------------------------


def test_what_an_amendment_says_it_knew_counts(tmp_path: Path) -> None:
    """For what it concerns, and for nothing else."""
    folder = frozen(tmp_path)
    loosened(tmp_path, "0.1", "0.2", "pilot")
    chain = chain_of(folder)
    assert chain.known_to("H1", frozenset()) == "pilot"
    assert chain.known_to("H1-order", frozenset()) == "none"


def test_the_most_that_any_amendment_knew_counts(tmp_path: Path) -> None:
    """A later one that knows no less doesn't wash an earlier one clean."""
    folder = frozen(tmp_path)
    loosened(tmp_path, "0.1", "0.2", "full")
    edit(folder / "protocol.toml", "equivalence_alpha = 0.05", "equivalence_alpha = 0.04")
    added(tmp_path, "inference", known="full", statement=SAID)
    assert chain_of(folder).known_to("H1", frozenset()) == "full"
    assert chain_of(folder).known_to("H1-order", frozenset()) == "full"


def test_results_under_an_earlier_link_were_known_whatever_was_said(tmp_path: Path) -> None:
    """Attempts under the freeze's root precede the amendment; those under its own don't."""
    folder = frozen(tmp_path)
    first = chain_of(folder).registration.root
    second = loosened(tmp_path, "0.1", "0.2")
    chain = chain_of(folder)
    assert chain.known_to("H1", frozenset({first})) == "full"
    assert chain.known_to("H1", frozenset({second})) == "none"
    assert chain.known_to("H1", frozenset({"f" * 64})) == "none"


def test_nobody_knows_less_later(tmp_path: Path) -> None:
    """An amendment, made by hand, that claims ignorance after a pilot is not believed."""
    folder = frozen(tmp_path)
    edit(folder / "test_h1.py", "The claim holds.", "It holds.")
    added(tmp_path, "gates", known="pilot", statement=SAID)
    threshold(folder, "0.1", "0.2")
    found = amend(
        prepared(tmp_path), ["H1"], reason="It was read off the wrong table.", known="pilot", statement=SAID
    )
    (folder / "amendments" / found.file_name).unlink()
    sly = {k: v for k, v in found.content().items() if k != "statement"} | {"known": "none"}
    other = sealed(type(found), sly)
    write_record(folder / "amendments" / other.file_name, other)
    commit(tmp_path, "Amend")
    chain = chain_of(folder)
    assert chain.fault() is None
    assert chain.known_to("H1", frozenset()) == "pilot"

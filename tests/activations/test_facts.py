"""The reader of facts files: what it accepts, and every way in which it refuses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from prereg.activations import facts as module
from prereg.activations.facts import Fact, read_facts
from prereg.errors import FactsError

SHIPPED = Path(__file__).parents[2] / "fixtures" / "facts"
HEADER = "relation,subject,template,answer\n"
CAPITAL = "capital,{},The capital of {{subject}} is,{}\n"
GOOD = HEADER + CAPITAL.format("France", "Paris") + CAPITAL.format("Japan", "Tokyo")


def write(folder: Path, text: str | bytes) -> Path:
    """Write a facts file and return its path."""
    path = folder / "facts.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def refusal(path: Path, **options: object) -> FactsError:
    """Read with the smallest minimums and return the error, which must name file and remedy."""
    wanted = {"min_templates": 1, "min_subjects": 1} | options
    with pytest.raises(FactsError) as caught:
        read_facts(path, **wanted)  # type: ignore[arg-type]
    assert caught.value.remedy
    return caught.value


def test_a_file_is_read_in_its_own_order(tmp_path: Path) -> None:
    """Facts keep the file's order; relations and subjects come sorted, each once."""
    path = write(tmp_path, GOOD)
    facts = read_facts(path, min_templates=1, min_subjects=2)
    assert [f.answer for f in facts.facts] == ["Paris", "Tokyo"]
    assert facts.relations == ("capital",)
    assert facts.subjects == ("France", "Japan")
    assert facts.path == path
    assert facts.facts[0].prompt == "The capital of France is"


def test_line_ends_do_not_change_the_digest(tmp_path: Path) -> None:
    """CRLF and LF give the same facts and the digest of the LF bytes."""
    lf = read_facts(write(tmp_path, GOOD), min_templates=1, min_subjects=1)
    crlf = read_facts(write(tmp_path, GOOD.replace("\n", "\r\n")), min_templates=1, min_subjects=1)
    assert lf.facts == crlf.facts
    assert lf.sha256 == crlf.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()


def test_the_registered_digest_is_accepted(tmp_path: Path) -> None:
    """A file with the expected sha256 is read."""
    digest = hashlib.sha256(GOOD.encode()).hexdigest()
    path = write(tmp_path, GOOD)
    facts = read_facts(path, expected_sha256=digest, min_templates=1, min_subjects=1)
    assert facts.sha256 == digest


def test_a_prompt_id_never_changes() -> None:
    """The id is a fixed function of the four fields, the same on every machine."""
    fact = Fact("capital", "France", "The capital of {subject} is", "Paris")
    assert fact.prompt_id == "18cce7174aa19737"


@pytest.mark.parametrize(
    "other",
    [
        Fact("ab", "c", "d", "e"),
        Fact("a", "bcd", "", "e"),
        Fact("a", "bc", "de", ""),
        Fact("a", "bc", "d", "E"),
    ],
)
def test_a_prompt_id_keeps_fields_apart(other: Fact) -> None:
    """Moving a letter over a field's border, or changing case, changes the id."""
    assert Fact("a", "bc", "d", "e").prompt_id != other.prompt_id


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD.replace("relation,", "Relation,"), 1, "the header is"),
        (GOOD.replace("template,answer", "answer,template"), 1, "the header is"),
        (GOOD + "capital,Italy,The capital of {subject} is\n", 4, "has 3 fields, wanted 4"),
        (GOOD + "capital,Italy,The capital of {subject}, is,Rome\n", 4, "has 5 fields"),
        (GOOD + "\n" + CAPITAL.format("Italy", "Rome"), 4, "has 0 fields"),
        (GOOD + CAPITAL.format("Italy", ""), 4, "answer '' is empty"),
        (GOOD + CAPITAL.format("  ", "Rome"), 4, "subject '  ' is empty"),
        (GOOD + CAPITAL.format("Italy", " Rome"), 4, "begins or ends with a blank"),
        (GOOD + "capital,Italy,The capital of {subject} is ,Rome\n", 4, "ends with a blank"),
        (GOOD + "capital,Italy,The capital of Spain is,Rome\n", 4, "{subject} 0 times"),
        (GOOD + "capital,Italy,{subject}: {subject} has,Rome\n", 4, "{subject} 2 times"),
        (GOOD + "capital,Italy,{subject} of {object} is,Rome\n", 4, "unknown placeholder"),
        (GOOD + "capital,Italy,In {subject} } it is,Rome\n", 4, "unknown placeholder"),
        (GOOD + CAPITAL.format("{subject}", "Rome"), 4, "unknown placeholder"),
        (GOOD + CAPITAL.format("France", "Paris"), 4, "of line 2"),
        (GOOD + CAPITAL.format("France", "Lyon"), 4, "'Paris' on line 2"),
        (GOOD + "seat,France,The capital of {subject} is,Lyon\n", 4, "repeats the prompt"),
        (GOOD + "coin,france,The coin of {subject} is,euro\n", 4, "'France' on line 2"),
        (GOOD + CAPITAL.format("Mexico", "mexico"), 4, "stands in the prompt"),
        (GOOD + CAPITAL.format("Old Málaga", "Malaga"), 4, "stands in the prompt"),
        (GOOD + 'capital,"Ita\nly",The capital of {subject} is,Rome\n', 4, "line break"),
        (GOOD + CAPITAL.format("It\u200baly", "Rome"), 4, "invisible character"),
        (GOOD + CAPITAL.format("Peru\u0301", "Lima"), 4, "accents apart"),
        (GOOD + 'capital,"Ital"y,The capital of {subject} is,Rome\n', 4, "is not CSV"),
        (GOOD + CAPITAL.format("Ita\0ly", "Rome"), 4, "a NUL byte"),
        (GOOD + CAPITAL.format("Ita\rly", "Rome"), 4, "a carriage return"),
        ("\ufeff" + GOOD, 1, "a byte order mark"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    """Each broken rule names the file, the line and what was found."""
    path = write(tmp_path, text)
    error = refusal(path)
    assert error.message.startswith(f"{path}, line {line}: ")
    assert words in error.message


def test_a_later_line_is_counted_past_a_quoted_line_break(tmp_path: Path) -> None:
    """The first of two faults is reported, on the line where its row begins."""
    path = write(tmp_path, GOOD + 'capital,"Ita\nly",The capital of {subject} is,Rome\nx,y\n')
    assert ", line 4: subject" in refusal(path).message


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    """A Latin-1 file names the byte and its line."""
    path = write(tmp_path, GOOD.encode() + "capital,Perú,{subject} is,Lima\n".encode("latin-1"))
    assert "line 4: byte 0xfa is not UTF-8" in refusal(path).message


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \r\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file without text is no facts file."""
    assert "is empty" in refusal(write(tmp_path, content)).message


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    """No rows is an error, not an empty study."""
    assert "no facts" in refusal(write(tmp_path, HEADER)).message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The path that was looked for is named."""
    error = refusal(tmp_path / "nowhere.csv")
    assert error.message == f"{tmp_path / 'nowhere.csv'}: no such facts file"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """What can't be opened as a file says why."""
    assert "can't be read: Is a directory" in refusal(tmp_path).message


def test_a_file_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte over the limit is too much, and the limit itself is not."""
    path = write(tmp_path, GOOD)
    monkeypatch.setattr(module, "MAX_BYTES", len(GOOD))
    assert len(read_facts(path, min_templates=1, min_subjects=1).facts) == 2
    monkeypatch.setattr(module, "MAX_BYTES", len(GOOD) - 1)
    assert f"limit of {len(GOOD) - 1} bytes" in refusal(path).message


def test_another_digest_is_refused(tmp_path: Path) -> None:
    """A mismatch names both digests."""
    error = refusal(write(tmp_path, GOOD), expected_sha256="0" * 64)
    assert "0" * 64 in error.message
    assert hashlib.sha256(GOOD.encode()).hexdigest() in error.message


@pytest.mark.parametrize("digest", ["", "abc", "A" * 64, "0" * 63 + "\n"])
def test_half_a_digest_is_refused(tmp_path: Path, digest: str) -> None:
    """An expected digest that could match nothing, or too much, is an error of its own."""
    error = refusal(write(tmp_path, GOOD), expected_sha256=digest)
    assert "not 64 lower-case hex digits" in error.message


def test_too_few_templates_are_refused(tmp_path: Path) -> None:
    """A relation with fewer templates than wanted is named with both counts."""
    error = refusal(write(tmp_path, GOOD), min_templates=2)
    assert "line 2: relation 'capital' has 1 templates, wanted at least 2" in error.message


def test_too_few_subjects_are_refused(tmp_path: Path) -> None:
    """A relation with fewer subjects than wanted is named, even beside one with enough."""
    text = GOOD + "coin,France,The coin of {subject} is,euro\n"
    error = refusal(write(tmp_path, text), min_subjects=2)
    assert "line 4: relation 'coin' has 1 subjects, wanted at least 2" in error.message


@pytest.mark.parametrize("name", ["min_templates", "min_subjects"])
def test_minimums_below_one_are_refused(tmp_path: Path, name: str) -> None:
    """A minimum of zero would let an empty relation pass."""
    assert f"{name} is 0" in refusal(write(tmp_path, GOOD), **{name: 0}).message


def test_one_letter_answers_leak_only_as_whole_words(tmp_path: Path) -> None:
    """The symbol C does not leak from the word "carbon", but "a" does from "Give a"."""
    symbols = HEADER + "symbol,carbon,The symbol of {subject} is,C\n"
    assert read_facts(write(tmp_path, symbols), min_templates=1, min_subjects=1).facts
    leaking = HEADER + "symbol,argon,Give a symbol for {subject}:,A\n"
    assert "stands in the prompt" in refusal(write(tmp_path, leaking)).message


def test_the_shipped_file_passes() -> None:
    """The facts that ship have the reported digest and are many enough for a study."""
    report = json.loads((SHIPPED / "REPORT.json").read_text(encoding="utf-8"))
    facts = read_facts(
        SHIPPED / "facts.csv",
        expected_sha256=report["facts.csv"]["sha256"],
        min_templates=3,
        min_subjects=60,
    )
    assert len(facts.facts) == report["facts.csv"]["rows"] >= 3000
    assert len(facts.relations) >= 7
    assert len(facts.subjects) == report["facts.csv"]["subjects"] >= 600
    assert len({f.prompt_id for f in facts.facts}) == len(facts.facts)

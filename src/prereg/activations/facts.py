"""Facts: (relation, subject, template, answer), read from a CSV file that must be beyond doubt.

A facts file is UTF-8 CSV with the header ``relation,subject,template,answer``. A template holds
``{subject}`` once; the prompt is the template with the subject put in, and the model should go on
with a blank and the answer. Everything a study measures rests on this file, so the reader accepts
it whole or refuses it with the line at fault.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prereg.errors import FactsError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["COLUMNS", "MAX_BYTES", "PLACEHOLDER", "Fact", "FactSet", "read_facts"]

COLUMNS = ("relation", "subject", "template", "answer")
PLACEHOLDER = "{subject}"
# Far above any study's file; keeps a mistaken path from filling the memory.
MAX_BYTES = 20 * 1024 * 1024

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = {
    "\0": "a NUL byte",
    "\r": "a carriage return that ends no line",
    "\ufeff": "a byte order mark",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact in one wording.

    Parameters
    ----------
    relation
        What links subject and answer, such as ``capital``.
    subject
        What the fact is about. The cluster of every interval, over all relations.
    template
        A cloze text with ``{subject}`` in it once.
    answer
        How the prompt should go on, without the leading blank.
    """

    relation: str
    subject: str
    template: str
    answer: str

    @property
    def prompt(self) -> str:
        """The template with the subject put in."""
        return self.template.replace(PLACEHOLDER, self.subject)

    @property
    def prompt_id(self) -> str:
        """Sixteen hex digits (BLAKE2b, 8 bytes) over the four fields; the same on every machine.

        Each field goes in with its length in bytes before it, so that no two facts share an
        input to the hash.
        """
        digest = hashlib.blake2b(digest_size=8, person=b"prereg.fact")
        for field in (self.relation, self.subject, self.template, self.answer):
            encoded = field.encode("utf-8")
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FactSet:
    """The facts of one file, in the file's order.

    Parameters
    ----------
    facts
        Every fact, never empty.
    sha256
        SHA-256 (hex) of the file's bytes with CRLF read as LF, so that a checkout on another
        system has the same digest.
    path
        Where the facts were read from.
    """

    facts: tuple[Fact, ...]
    sha256: str
    path: Path

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations, sorted, each once."""
        return tuple(sorted({fact.relation for fact in self.facts}))

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects over all relations, sorted, each once."""
        return tuple(sorted({fact.subject for fact in self.facts}))


@dataclass(frozen=True, slots=True)
class _Row:
    """A fact and the line its row starts on."""

    line: int
    fact: Fact


def read_facts(
    path: str | os.PathLike[str],
    *,
    expected_sha256: str | None = None,
    min_templates: int = 3,
    min_subjects: int = 10,
) -> FactSet:
    """Read a facts file, or refuse it.

    Parameters
    ----------
    path
        The CSV file.
    expected_sha256
        The digest that was registered (64 hex digits), or None when none was.
    min_templates
        The fewest different templates a relation may have (1 or more).
    min_subjects
        The fewest different subjects a relation may have (1 or more).

    Returns
    -------
    FactSet
        At least one fact, in the file's order.

    Raises
    ------
    FactsError
        The file is missing, unreadable, too large, empty, not UTF-8, or not the registered one;
        or a row breaks a rule. The message names the file, and the line where there is one.
    """
    place = Path(path)
    _check_limits(min_templates, min_subjects)
    content = _read_bytes(place)
    digest = hashlib.sha256(content).hexdigest()
    _check_digest(place, digest, expected_sha256)
    rows = list(_rows(place, _decode(place, content)))
    if not rows:
        raise _error(place, None, "holds a header but no facts", "add one row per fact")
    _check_across_rows(place, rows)
    _check_relations(place, rows, min_templates, min_subjects)
    return FactSet(facts=tuple(row.fact for row in rows), sha256=digest, path=place)


def _error(path: Path, line: int | None, found: str, remedy: str) -> FactsError:
    where = f"{path}" if line is None else f"{path}, line {line}"
    return FactsError(f"{where}: {found}", remedy=remedy)


def _check_limits(min_templates: int, min_subjects: int) -> None:
    for name, value in (("min_templates", min_templates), ("min_subjects", min_subjects)):
        if value < 1:
            raise FactsError(f"{name} is {value}, wanted 1 or more", remedy=f"pass {name}=1")


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            content = handle.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        remedy = "check the path of the facts in protocol.toml, or restore the file"
        raise _error(path, None, "no such facts file", remedy) from error
    except OSError as error:
        found = f"can't be read: {error.strerror or type(error).__name__}"
        raise _error(path, None, found, f"check it with `ls -l {path}`") from error
    if len(content) > MAX_BYTES:
        remedy = "check that this is the facts file; if it is, split the study"
        raise _error(path, None, f"is larger than the limit of {MAX_BYTES} bytes", remedy)
    content = content.replace(b"\r\n", b"\n")
    if not content.strip():
        raise _error(path, None, "is empty", f"start it with the header {','.join(COLUMNS)}")
    return content


def _check_digest(path: Path, found: str, expected: str | None) -> None:
    if expected is None:
        return
    if not _DIGEST.fullmatch(expected):
        message = f"the expected sha256 is {expected!r}, not 64 lower-case hex digits"
        raise _error(path, None, message, f"write it in full; this file's is {found}")
    if found != expected:
        remedy = f"restore the registered file (`git log -- {path}`), or amend the protocol"
        raise _error(path, None, f"sha256 is {found}, registered is {expected}", remedy)


def _decode(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte {content[error.start]:#04x} is not UTF-8"
        raise _error(path, line, found, "save the file as UTF-8") from error
    for character, name in _FORBIDDEN.items():
        if character in text:
            line = text.count("\n", 0, text.index(character)) + 1
            raise _error(path, line, f"holds {name}", "save the file as plain UTF-8 text")
    return text


def _rows(path: Path, text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for fields in reader:
            if start == 1:
                _check_header(path, fields)
            else:
                yield _Row(start, _fact(path, start, fields))
            # A quoted field may span lines: the next row starts after the last line read.
            start = reader.line_num + 1
    except csv.Error as error:
        found = f"is not CSV: {error}"
        raise _error(path, reader.line_num, found, "check the quotes on this line") from error


def _check_header(path: Path, fields: list[str]) -> None:
    if tuple(fields) != COLUMNS:
        wanted = ",".join(COLUMNS)
        found = f"the header is {','.join(fields)!r}, wanted {wanted!r}"
        raise _error(path, 1, found, f"make the first line {wanted}")


def _fact(path: Path, line: int, fields: list[str]) -> Fact:
    if len(fields) != len(COLUMNS):
        remedy = "quote any field that holds a comma, and leave no blank line"
        raise _error(path, line, f"has {len(fields)} fields, wanted {len(COLUMNS)}", remedy)
    fact = Fact(*fields)
    for name, value in zip(COLUMNS, fields, strict=True):
        problem = _field_problem(name, value)
        if problem is not None:
            raise _error(path, line, f"{name} {value!r} {problem[0]}", problem[1])
    placeholders = fact.template.count(PLACEHOLDER)
    if placeholders != 1:
        found = f"template {fact.template!r} holds {PLACEHOLDER} {placeholders} times, wanted once"
        raise _error(path, line, found, f"write {PLACEHOLDER} exactly once")
    if _leaks(fact):
        found = f"the answer {fact.answer!r} stands in the prompt {fact.prompt!r}"
        raise _error(path, line, found, "delete the row: the model could copy the answer")
    return fact


def _field_problem(name: str, value: str) -> tuple[str, str] | None:
    """Return what is wrong with a field and its remedy, or None."""
    if not value.strip():
        return "is empty", f"fill in {name}, or delete the row"
    if value != value.strip():
        return "begins or ends with a blank", "strip it; the answer's blank is added for the model"
    if not value.isprintable():
        return "holds a line break, tab or invisible character", "write it on one line, as text"
    if not unicodedata.is_normalized("NFC", value):
        return "has accents apart from their letters", "save it in Unicode form NFC"
    braces = value.replace(PLACEHOLDER, "") if name == "template" else value
    if "{" in braces or "}" in braces:
        return "holds an unknown placeholder or a brace", f"use {PLACEHOLDER}, in templates only"
    return None


def _leaks(fact: Fact) -> bool:
    """Return whether the answer stands in the prompt as whole words, accents and case aside."""
    answer = re.escape(_fold(fact.answer))
    return re.search(rf"(?<!\w){answer}(?!\w)", _fold(fact.prompt)) is not None


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _check_across_rows(path: Path, rows: list[_Row]) -> None:
    """Refuse repeated prompts, two answers to one question and two spellings of a subject."""
    answers: dict[tuple[str, str], _Row] = {}
    prompts: dict[str, _Row] = {}
    spellings: dict[str, _Row] = {}
    for row in rows:
        fact = row.fact
        first = answers.setdefault((fact.relation, fact.subject), row)
        if first.fact.answer != fact.answer:
            found = (
                f"{fact.relation} of {fact.subject!r} is {fact.answer!r} here and "
                f"{first.fact.answer!r} on line {first.line}"
            )
            raise _error(path, row.line, found, "keep one answer, or leave the subject out")
        first = prompts.setdefault(fact.prompt, row)
        if first is not row:
            found = f"repeats the prompt {fact.prompt!r} of line {first.line}"
            raise _error(path, row.line, found, "delete one of the two rows")
        # Subjects are the clusters: a second spelling would put one subject on both sides.
        first = spellings.setdefault(_fold(fact.subject), row)
        if first.fact.subject != fact.subject:
            found = f"subject {fact.subject!r} is {first.fact.subject!r} on line {first.line}"
            raise _error(path, row.line, found, "write a subject in one way throughout")


def _check_relations(path: Path, rows: list[_Row], min_templates: int, min_subjects: int) -> None:
    groups: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[row.fact.relation].append(row)
    for relation, group in groups.items():
        for noun, wanted, count in (
            ("templates", min_templates, len({row.fact.template for row in group})),
            ("subjects", min_subjects, len({row.fact.subject for row in group})),
        ):
            if count < wanted:
                found = f"relation {relation!r} has {count} {noun}, wanted at least {wanted}"
                raise _error(path, group[0].line, found, f"add {noun}, or delete the relation")

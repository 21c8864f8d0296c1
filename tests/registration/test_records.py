"""A registration as a file: any change of what it says is seen, a change of how it is written is none."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prereg.errors import RegistrationError
from prereg.protocol import read_protocol
from prereg.registration.records import (
    Amendment,
    Registration,
    content_digest,
    decode_json,
    parse,
    protocol_data,
    read_amendments,
    read_json,
    read_registration,
    sealed,
    timestamp,
    write_record,
)
from tests.synthetic import REPOSITORY

A, B = "a" * 64, "b" * 64
Path_ = tuple[str | int, ...]


@cache
def registration() -> Registration:
    protocol = read_protocol(REPOSITORY / "tests" / "data" / "protocol.toml")
    content = {
        "format": 1,
        "study": "sample",
        "date": "2026-11-30T12:00:00Z",
        "known": "pilot",
        "statement": "A pilot on the café's 20 prompts was seen.",
        "seen": ["some-model"],
        "components": {
            "protocol": protocol.digest,
            "gates": {"gates/sample/test_h1.py": A},
            "code": {"prereg/study/study.py": A},
            "facts": {"facts.csv": B},
            "models": {"some-model": "main"},
            "libraries": {"numpy": "2.1.0"},
        },
        "protocol": protocol_data(protocol.protocol),
    }
    return sealed(Registration, content)


@cache
def amendment() -> Amendment:
    content = registration().content() | {
        "number": 1,
        "previous": registration().root,
        "subjects": ["H1"],
        "reason": "The gate imported a module that is gone.",
        "changes": [{"key": "hypotheses.H1.threshold", "old": 0.1, "new": 0.05, "effect": "looser"}],
        "files": [{"component": "gates", "name": "test_h1.py", "old": A, "new": B}],
    }
    return sealed(Amendment, content)


def data() -> dict[str, Any]:
    return {**registration().content(), "root": registration().root}


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if items is None:
        yield path
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def put(path: Path_, new: Any, *, drop: bool = False) -> dict[str, Any]:
    found = copy.deepcopy(data())
    inside: Any = found
    for key in path[:-1]:
        inside = inside[key]
    if drop:
        del inside[path[-1]]
    else:
        inside[path[-1]] = new
    return found


def at(path: Path_) -> Any:
    value: Any = data()
    for key in path:
        value = value[key]
    return value


LEAVES = sorted(leaves(data()), key=str)


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_a_change_of_any_value_is_seen(path: Path_) -> None:
    """Another number, letter, blank or type, or none at all: the file is refused, and in words."""
    old = at(path)
    others: list[Any] = [None, True, [old], {"x": old}]
    if isinstance(old, str):
        others += [old + " ", " " + old, old + "x", old[:-1], old.upper() + "Y", 1]
    else:
        others += [old + 1, -old - 1, str(old), old + 1e-9]
    for other in others:
        with pytest.raises(RegistrationError):
            parse(Registration, put(path, other), "registration.json")
    with pytest.raises(RegistrationError):
        parse(Registration, put(path, None, drop=True), "registration.json")


@given(path=st.sampled_from(LEAVES), text=st.text(max_size=20), number=st.floats(allow_nan=False))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_value_can_be_swapped_for_another(path: Path_, text: str, number: float) -> None:
    """Whatever is put in a value's place, either it says the same or the file is refused."""
    for other in (text, number, at(path)):
        changed = put(path, other)
        try:
            found = parse(Registration, json.loads(json.dumps(changed)), "registration.json")
        except RegistrationError:
            continue
        assert found.root == registration().root
        assert content_digest(found.content()) == found.root


@pytest.mark.parametrize("key", ["statement", "seen", "extra", "amended", "root2"])
@pytest.mark.parametrize("value", [None, [], "x", {}])
def test_a_key_more_is_seen(key: str, value: Any) -> None:
    """Also one that changes nothing: what a file says is what was written, no more."""
    content = {k: v for k, v in data().items() if k not in ("statement", "seen")} | {key: value}
    with pytest.raises(RegistrationError):
        parse(Registration, content, "registration.json")


def test_another_root_over_the_same_content_is_seen() -> None:
    """The root is a digest, not a name."""
    with pytest.raises(RegistrationError, match="it was edited"):
        parse(Registration, put(("root",), A), "registration.json")


def test_a_promise_under_anothers_digest_is_seen() -> None:
    """Sealed anew, but the promise is not the one that its component names."""
    content = {k: v for k, v in put(("components", "protocol"), A).items() if k != "root"}
    with pytest.raises(RegistrationError, match="not the one whose digest it names"):
        sealed(Registration, content)


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(data()),
        json.dumps(data(), indent=8, ensure_ascii=True),
        json.dumps(dict(reversed(list(data().items()))), separators=(" ,", " :")),
        json.dumps(data(), indent=2).replace("\n", "\r\n"),
        "\n\n\t" + json.dumps(data(), ensure_ascii=False) + "\n\n",
        json.dumps(data()).replace('"share": 1', '"share": 1.0').replace("0.95", "95.0e-2"),
    ],
    ids=["one line", "escapes", "key order", "CRLF", "blank lines", "1.0"],
)
def test_another_way_of_writing_says_the_same(tmp_path: Path, raw: str) -> None:
    """Indent, escapes, order, line ends, and 1 against 1.0 are no edit of what is said."""
    (tmp_path / "registration.json").write_text(raw, "utf-8", newline="")
    found = read_registration(tmp_path)
    assert found is not None
    assert found.root == registration().root


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


GOOD = json.dumps(data()).encode()
HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"registration"',
    "no json": b"<<<<<<< HEAD",
    "twice": GOOD[:-1] + b', "known": "none"}',
    "twice inside": GOOD.replace(b'"format": 1', b'"format": 1, "format": 1', 1),
    "twice by an escape": GOOD[:-1] + b', "kn\\u006fwn": "none"}',
    "NaN": GOOD.replace(b"0.5", b"NaN", 1),
    "Infinity": GOOD.replace(b"0.5", b"-Infinity", 1),
    "1e999": GOOD.replace(b"0.5", b"1e999", 1),
    "many digits": GOOD.replace(b"0.5", b"9" * 100_000, 1),
    "large integer": GOOD.replace(b'"seed": 1', b'"seed": 1' + b"0" * 400, 1),
    "65 deep": nested(65),
    "bomb of tables": nested(100_000),
    "bomb of lists": b"[" * 500_000,
    "3 MB": GOOD + b" " * 3_000_000,
    "not UTF-8": GOOD.replace(b"sample", b"samp\xff\xfe", 1),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "NUL": GOOD + b"\0",
    "NUL in text": GOOD.replace(b"sample", b"sam\\u0000ple"),
    "surrogate": GOOD.replace(b"sample", b"\\ud800ample"),
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "two forms of a key": GOOD.replace(b'"kernels": {', b'"kernels": {"\xc3\xa9": 1, "e\xcc\x81": 2, ', 1),
    "marks": GOOD.replace(b"sample", b"a" + "\u0301".encode() * 40, 1),
    "terminal": GOOD[:-1] + b', "\\u001b[2J\\u202e": 1}',
    "pickle": b"\x80\x04\x95\x0c\x00\x00\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_refused_in_words(tmp_path: Path, name: str) -> None:
    """Each in one printable line that names the file: no traceback, no escape that a terminal would obey."""
    (tmp_path / "registration.json").write_bytes(HOSTILE[name])
    with pytest.raises(RegistrationError, match=r"registration\.json") as caught:
        read_registration(tmp_path)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("raw", [nested(65), b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", nested(100_000)])
def test_what_is_nested_beyond_any_promise_is_refused_as_that(raw: bytes) -> None:
    """The bound is prereg's own, not the parser's; what a promise needs is well within it."""
    with pytest.raises(RegistrationError, match="nested too deeply"):
        decode_json(raw, "registration.json")
    assert decode_json(nested(64), "registration.json")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "dangling link", "link to a device", "circle"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    """A pipe has no end, a device neither; a link may lead out of the study."""
    file = tmp_path / "registration.json"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        (tmp_path / "good.json").write_bytes(GOOD)
        targets = {"link": "good.json", "dangling link": "nowhere", "link to a device": "/dev/zero"}
        file.symlink_to(targets.get(kind, "registration.json"))
    with pytest.raises(RegistrationError, match=r"registration\.json"):
        read_registration(tmp_path)


def test_a_pipe_that_takes_the_files_place_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file is is asked of the opened one: between a look and the opening it may be swapped."""
    file = tmp_path / "registration.json"
    os.mkfifo(file)
    (tmp_path / "plain").write_bytes(GOOD)
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: real(tmp_path / "plain" if path == file else path))
    with pytest.raises(RegistrationError):
        read_json(file)


def test_no_file_is_no_registration(tmp_path: Path) -> None:
    """Absence is an answer, not an error."""
    assert read_registration(tmp_path) is None
    assert read_amendments(tmp_path) == ()


# -- amendments -----------------------------------------------------------------------------------------------


def test_an_amendment_is_read_back(tmp_path: Path) -> None:
    """Under its own name, with what it says."""
    write_record(tmp_path / "amendments" / amendment().file_name, amendment())
    assert read_amendments(tmp_path) == (amendment(),)


def test_a_renamed_amendment_is_seen(tmp_path: Path) -> None:
    """Its name says which number and root it has."""
    write_record(tmp_path / "amendments" / "0002-deadbeef.json", amendment())
    with pytest.raises(RegistrationError, match="it was renamed"):
        read_amendments(tmp_path)


@pytest.mark.parametrize(
    "key", ["number", "previous", "subjects", "reason", "changes", "files", "date", "known"]
)
def test_an_edited_amendment_is_seen(tmp_path: Path, key: str) -> None:
    """Each of its values is under its root."""
    others = {
        "number": 2, "previous": A, "subjects": ["H1", "H2"], "reason": "Because it had to be so.", "changes": [],
        "files": [], "date": "2020-01-01T00:00:00Z", "known": "full",
    }  # fmt: skip
    content = {**amendment().content(), "root": amendment().root, key: others[key]}
    file = tmp_path / "amendments" / amendment().file_name
    file.parent.mkdir()
    file.write_text(json.dumps(content))
    with pytest.raises(RegistrationError, match="it was edited"):
        read_amendments(tmp_path)


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "dangling link"])
def test_a_folder_of_amendments_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    """Never taken for no amendments; a link is not followed out of the study."""
    study, other = tmp_path / "study", tmp_path / "other"
    study.mkdir()
    write_record(other / amendment().file_name, amendment())
    place = study / "amendments"
    if kind == "file":
        place.write_text("")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(other if kind == "link" else "nowhere")
    with pytest.raises(RegistrationError, match="amendments: not a folder of the study's own"):
        read_amendments(study)


@pytest.mark.parametrize("kind", ["foreign", "pipe", "folder", "link"])
def test_foreign_things_among_the_amendments_are_refused(tmp_path: Path, kind: str) -> None:
    """What is no amendment has no place there; nothing of it is followed or waited for."""
    place = tmp_path / "amendments"
    write_record(place / amendment().file_name, amendment())
    file = place / "0002-00000000.json"
    if kind == "foreign":
        file.write_text("{}")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(amendment().file_name)
    with pytest.raises(RegistrationError, match="0002-00000000"):
        read_amendments(tmp_path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"changes": [], "files": []}, "it changes nothing"),
        ({"subjects": []}, "subjects"),
        ({"reason": "Oversight."}, "reason"),
        ({"reason": "An oversight."}, "three words"),
        ({"number": 0}, "number"),
        ({"number": 1001}, "number"),
        ({"date": "2026-13-01T00:00:00Z"}, "date"),
        ({"date": "2026-11-30"}, "date"),
        ({"known": "all"}, "known"),
        ({"files": [{"component": "gates", "name": "x", "old": A}] * 2}, "named twice"),
        ({"files": [{"component": "verdicts", "name": "x", "old": A}]}, "files"),
    ],
)
def test_an_amendment_that_breaks_a_rule_is_not_sealed(change: dict[str, Any], match: str) -> None:
    """Each rule has its message."""
    with pytest.raises(RegistrationError, match=match):
        sealed(Amendment, amendment().content() | change)


# -- writing --------------------------------------------------------------------------------------------------


def test_a_record_is_never_written_over(tmp_path: Path) -> None:
    """Not even by itself."""
    file = tmp_path / "registration.json"
    write_record(file, registration())
    before = file.read_bytes()
    with pytest.raises(RegistrationError, match="never overwritten"):
        write_record(file, registration())
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["registration.json"]


def test_a_record_too_large_to_be_read_again_is_not_written(tmp_path: Path) -> None:
    """Better refused at the freeze than tampered with ever after."""
    many = {f"gates/sample/test_{n:06d}.py": A for n in range(25_000)}
    content = registration().content()
    content["components"] = content["components"] | {"gates": many}
    with pytest.raises(RegistrationError, match="larger than"):
        write_record(tmp_path / "registration.json", sealed(Registration, content))
    assert not list(tmp_path.iterdir())


def test_the_registered_data_leave_no_room_for_two_readings() -> None:
    """Floats, NFD text and key order lead to the digest of the plain form."""
    assert content_digest({"a": 1.0, "b": "e\u0301"}) == content_digest({"b": "é", "a": 1})
    assert content_digest({"a": 1.5}) != content_digest({"a": 1})
    assert content_digest({"a": True}) != content_digest({"a": 1})


def test_times_are_utc_in_whole_seconds() -> None:
    """Whatever the clock's zone."""
    from datetime import datetime

    moment = datetime.fromisoformat("2026-11-30T23:30:00.75-02:00")
    assert timestamp(moment) == "2026-12-01T01:30:00Z"

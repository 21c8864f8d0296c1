"""The canonical form: every spelling of a promise has one digest, and every change of a value another."""

from __future__ import annotations

import copy
import json
import math
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from prereg.errors import ProtocolError
from prereg.protocol import Protocol, canonical_json, digest, plain, read_protocol
from prereg.protocol.changes import changes
from prereg.protocol.reader import parse_protocol
from tests.protocol.fuzz import meaning
from tests.protocol.spelling import spell

TESTS = Path(__file__).parents[1]
FILES = [TESTS / "data" / "protocol.toml", TESTS.parent / "gates" / "delta_stream" / "protocol.toml"]
HERE = Path("protocol.toml")
by_file = pytest.mark.parametrize("file", FILES, ids=["sample", "delta_stream"])


def parsed(file: Path) -> dict[str, Any]:
    """Return a protocol's data, with what the registered ones lack: other scripts, long and odd text."""
    data = tomli.loads(file.read_text("utf-8"))
    data["analyses"]["odd"] = {
        "clé": "Å\tnaïve — 한글 ｱ ﬁ",
        "Ångström.quoted key": {"ή": ["ế", "two\nlines", ' "\\ ']},
        "numbers": [0.0, -0.0, 1e16, 2.0**62, 1e22, 5e-324, 1.5, 9007199254740993, -(2**63), 2**63 - 1],
        "": [[], {}, [True, 1, 1.0]],
    }
    return data


@by_file
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_every_spelling_has_one_digest(file: Path, seed: int) -> None:
    """Key order, comments, blanks, numbers, quotes, escapes, normal forms, line ends, tables, a BOM: all one."""
    data = parsed(file)
    plainly = parse_protocol(spell(data, random.Random(0)), HERE)
    raw = spell(data, random.Random(seed))
    again = parse_protocol(raw, HERE)
    assert again.digest == plainly.digest
    assert again.protocol == plainly.protocol


@by_file
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize("lines", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_file_as_an_editor_may_save_it(file: Path, form: str, end: str, lines: str, mark: bytes) -> None:
    """Normal form, last line, line ends and byte order mark are an editor's doing, not the author's."""
    text = unicodedata.normalize(form, file.read_text("utf-8")).rstrip("\n") + end  # type: ignore[arg-type]
    raw = mark + text.replace("\n", lines).encode("utf-8")
    assert parse_protocol(raw, HERE).digest == read_protocol(file).digest


def test_one_byte_order_mark_is_passed_over_not_two(tmp_path: Path) -> None:
    """A second one is text where none may stand; lines are counted as an editor counts them."""
    raw = FILES[0].read_bytes()
    mark = b"\xef\xbb\xbf"
    with pytest.raises(ProtocolError, match="line 1"):
        parse_protocol(mark + mark + raw, HERE)
    with pytest.raises(ProtocolError, match=r"protocol\.toml:2: not UTF-8"):
        parse_protocol(mark + b"a = 1\n\xff = 2\n", HERE)


def test_text_is_read_in_the_form_that_is_hashed() -> None:
    """Two files with one digest behave as one: names meet whatever form they were typed in."""
    text = FILES[0].read_text("utf-8")
    apart = text.replace('label = "over the null"', 'label = "over the ne\u0301ant"')
    second = '\n[[hypotheses.H1.contrasts]]\nlabel = "over the n\u00e9ant"\nupdates = "deep"\n'
    second += 'terms = [{ weight = 1.0, fit = "history_1" }]\n'
    doubled = apart.replace("\n[hypotheses.H1.permutation]", second + "\n[hypotheses.H1.permutation]")
    with pytest.raises(ProtocolError, match="two contrasts have the same label"):
        parse_protocol(doubled.encode("utf-8"), HERE)
    protocol = parse_protocol(apart.encode("utf-8"), HERE).protocol
    assert protocol.hypotheses["H1"].contrasts[0].label == "over the n\u00e9ant"


def test_a_key_in_two_normal_forms_is_a_duplicate() -> None:
    """One of the two would be hashed, and either could be read."""
    text = FILES[0].read_text("utf-8").replace("share = 1.0", 'share = 1.0\n"\u00e9" = 1\n"e\u0301" = 2')
    line = text.splitlines().index('"e\u0301" = 2') + 1
    with pytest.raises(ProtocolError, match=f":{line}: .*two Unicode forms"):
        parse_protocol(text.encode("utf-8"), HERE)
    with pytest.raises(ProtocolError, match="normal form"):
        plain({"\u00e9": 1, "e\u0301": 2})


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every leaf of plain data, and every list as one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
        return
    yield path, value
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))


WORDS = ("less", "greater", "equivalence", "all", "known", "primary", "secondary", "resid", "attn_out", "basic",
         "bca", "refuted", "supported", "deep", "band", "band_1", "band_2", "kernels", "band_kernels", "cosine",
         "twin-1", "model", "0" * 64)  # fmt: skip


def others(value: Any) -> list[Any]:
    """Return values near this one, or of its kind, that aren't it."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        up, down = math.nextafter(value, math.inf), math.nextafter(value, -math.inf)
        return [up, down, *([value + 1, value - 1, -value - 2] if isinstance(value, int) else [])]
    if isinstance(value, str):
        return [value + "x", value[:-1], value.upper(), value + "\u0301", *WORDS]
    return [value[1:], value[::-1], value + value[:1]]


def put(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return data with one value replaced; the rest is shared."""
    if not path:
        return value
    changed = copy.copy(data)
    changed[path[0]] = put(data[path[0]], path[1:], value)
    return changed


@by_file
def test_every_leaf_counts(file: Path) -> None:
    """Each value of the promise, changed to one that it allows, gives another digest and a named change."""
    original = read_protocol(file).protocol
    data = json.loads(canonical_json(original))
    assert digest(Protocol.model_validate_json(json.dumps(data), strict=True)) == digest(original)
    seen, untouched = {digest(original)}, []
    for path, value in leaves(data):
        allowed = 0
        for other in others(value):
            if other == value:
                continue
            try:
                candidate = json.dumps(put(data, path, other))
                protocol = Protocol.model_validate_json(candidate, strict=True)
            except ValidationError:
                continue
            found = digest(protocol)
            named = changes(data, json.loads(canonical_json(protocol)))
            assert found not in seen, (path, value, other)
            assert named, (path, value, other)
            assert all(change.words.isprintable() for change in named)
            seen.add(found)
            allowed += 1
            if allowed == (2 if file is FILES[0] else 1):
                break
        if not allowed:
            untouched.append(path)
    # Keys with one allowed value (unit, dtype, interval, format), and lists that must be as they are.
    assert len(untouched) < 0.2 * len(seen)
    assert not [path for path in untouched if path[-1] in ("threshold", "seed", "claim", "level")]


@by_file
def test_every_leaf_left_out_counts(file: Path) -> None:
    """A key that may be absent, or an element that may, is another promise without it."""
    original = read_protocol(file).protocol
    data = json.loads(canonical_json(original))
    n = 0
    for path, _ in leaves(data):
        changed = copy.deepcopy(data)
        at = changed
        for part in path[:-1]:
            at = at[part]
        del at[path[-1]]
        try:
            protocol = Protocol.model_validate_json(json.dumps(changed), strict=True)
        except ValidationError:
            continue
        # Some keys mean the same absent: an arm of "model", no controls.
        n += protocol != original
        assert (digest(protocol) != digest(original)) is (protocol != original), path
        assert bool(changes(data, json.loads(canonical_json(protocol)))) is (protocol != original), path
    assert n > 5


plain_data = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, 2**53, 2.0**53, 2.0**53 + 2, 1e16, 10**16, 2.0**63, 1e22])
    | st.text(max_size=4)
    | st.sampled_from(["é", "e\u0301", "a\r\nb", "a\nb", "1", "true"]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=2) | st.just("é"), inside, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(one=plain_data, two=plain_data)
@example(one=1e16, two=10**16)
@example(one=[True], two=[1])
@example(one={"a": 0.0}, two={"a": -0.0})
@example(one=float(2**62), two=2**62)
def test_one_meaning_one_form(one: Any, two: Any) -> None:
    """Data are written alike if and only if they mean the same."""
    try:
        forms = [json.dumps(plain({"x": value}), sort_keys=True) for value in (one, two)]
    except ProtocolError:
        return  # a key in two normal forms, refused
    assert (forms[0] == forms[1]) is (meaning(one) == meaning(two))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(value=plain_data)
def test_the_form_is_its_own_form(value: Any) -> None:
    """Written and read again, canonical data stay as they are, to the byte."""
    try:
        form = plain(value)
    except ProtocolError:
        return
    assert json.dumps(plain(json.loads(json.dumps(form)))) == json.dumps(form)

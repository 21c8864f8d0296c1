"""Ways of making a hostile file of a good one: bytes, words, lines, spelling, structure, size.

Each takes and returns bytes; several are applied in a row.
"""

from __future__ import annotations

import copy
import json
import random
import unicodedata
from collections.abc import Iterator
from typing import Any

import tomli

from tests.protocol.spelling import spell

__all__ = ["TOKENS", "mutate"]

TOKENS = [
    b"1e999", b"-1e999", b"nan", b"-inf", b"NaN", b"Infinity", b"9" * 400, b"9" * 5000,
    b"0x" + b"f" * 5000, b"-0.0", b"9223372036854775808", b"-9223372036854775809", b"1_000", b"1__0",
    b"0b2", b"01", b"1e-400", b"5e-324", b"1.", b"2026-01-01", b"2026-01-01T00:00:00Z", b"07:32:00",
    b"true", b"false", b"null", b"\x00", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b"\\uDFFF",
    b"\\U0010FFFF", b"\\U00110000", b"\\x1b", b"\\e[2K", b"\x1b[31m", b"\xff", b"\xc0\x80",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u202e".encode(), "\u2028".encode(), "\u0085".encode(),
    "e\u0301".encode(), "\u00e9".encode(), "\u212b".encode(), "\ufb01".encode(), "\u0345".encode() * 50,
    "\U000e0001".encode(), b"\r", b"\r\n", b'"""', b"'''", b'"', b"'", b"[", b"]", b"[[", b"]]", b"{",
    b"}", b"=", b",", b".", b"#", b"\\", b":", b"//", b"/*", b"__proto__", b"__class__",
    b"threshold = 9\n", b'"threshold": 9,', b"[hypotheses.H1]\n", b"[[facts]]\n", b"{}", b"[]", b'""',
    b"../../etc/passwd", b"%s%n{0}", b"$(id)", b"\t", b" ",
]  # fmt: skip

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0,
    1e16, 1e22, 1e308, 5e-324, 0.1, "", " ", "x", "\x00", "\x1b[2K", "\u202e", "e\u0301", "\u00e9", "nan",
    "a" * 1000, "twin-0", "twin-9999999999", "model", "../x", "/x", "~", "C:\\x", "0" * 64, "greater",
    "less", "equivalence", "none", [], [[]], {}, {"": {}}, [1, "a"], {"e\u0301": 1, "\u00e9": 2}, [{}] * 3,
]  # fmt: skip


def mutate(raw: bytes, rnd: random.Random, *, is_toml: bool) -> bytes:
    """Return a hostile variant of a file."""
    if rnd.random() < 0.35:
        raw = _structure(raw, rnd, is_toml=is_toml)
    if rnd.random() < 0.02:
        raw = _bomb(raw, rnd, is_toml=is_toml)
    for _ in range(rnd.choice([0, 1, 1, 1, 2, 3, 6])):
        raw = rnd.choice(_SMALL)(raw, rnd)
    return raw


def _cut(raw: bytes, rnd: random.Random) -> tuple[int, int]:
    start = rnd.randrange(len(raw) + 1)
    return start, min(len(raw), start + rnd.choice([1, 1, 2, 8, 40, 400]))


def _flip(raw: bytes, rnd: random.Random) -> bytes:
    if not raw:
        return raw
    at = rnd.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << rnd.randrange(8))]) + raw[at + 1 :]


def _delete(raw: bytes, rnd: random.Random) -> bytes:
    start, end = _cut(raw, rnd)
    return raw[:start] + raw[end:]


def _repeat(raw: bytes, rnd: random.Random) -> bytes:
    start, end = _cut(raw, rnd)
    return raw[:end] + raw[start:end] * rnd.choice([1, 1, 2, 20]) + raw[end:]


def _move(raw: bytes, rnd: random.Random) -> bytes:
    start, end = _cut(raw, rnd)
    at = rnd.randrange(len(raw) + 1)
    rest = raw[:start] + raw[end:]
    return rest[:at] + raw[start:end] + rest[at:]


def _insert(raw: bytes, rnd: random.Random) -> bytes:
    at = rnd.randrange(len(raw) + 1)
    return raw[:at] + rnd.choice(TOKENS) + raw[at:]


def _replace_word(raw: bytes, rnd: random.Random) -> bytes:
    words = raw.split(b" ")
    words[rnd.randrange(len(words))] = rnd.choice(TOKENS)
    return b" ".join(words)


def _replace_value(raw: bytes, rnd: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at = rnd.randrange(len(lines))
    for mark in (b"=", b":"):
        if mark in lines[at]:
            end = b"," if lines[at].rstrip().endswith(b",") else b""
            lines[at] = lines[at].split(mark)[0] + mark + b" " + rnd.choice(TOKENS) + end
            break
    return b"\n".join(lines)


def _lines(raw: bytes, rnd: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at, to = rnd.randrange(len(lines)), rnd.randrange(len(lines))
    way = rnd.randrange(4)
    if way == 0:
        lines[at], lines[to] = lines[to], lines[at]
    elif way == 1:
        lines.insert(to, lines[at])
    elif way == 2:
        del lines[at]
    else:
        lines = lines[:at]
    return b"\n".join(lines)


def _spelling(raw: bytes, rnd: random.Random) -> bytes:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
    way = rnd.randrange(5)
    if way == 0 and len(text) < 50_000:  # the time it takes can be quadratic
        return unicodedata.normalize(rnd.choice(["NFC", "NFD", "NFKC", "NFKD"]), text).encode("utf-8")
    if way == 1:
        return text.replace("\n", rnd.choice(["\r\n", "\r", "\n\n", "\u2028"])).encode("utf-8")
    if way == 2:
        return text.encode(rnd.choice(["utf-8-sig", "utf-16", "utf-32", "utf-7"]))
    if way == 3:
        return text.encode("latin-1", "replace")
    return text.translate({ord("1"): "\uff11", ord("a"): rnd.choice("a\u0430\u0251")}).encode("utf-8")


_SMALL = [
    _flip,
    _delete,
    _repeat,
    _move,
    _insert,
    _insert,
    _replace_word,
    _replace_value,
    _replace_value,
    _lines,
    _spelling,
]


def _bomb(raw: bytes, rnd: random.Random, *, is_toml: bool) -> bytes:
    """Return a file that is small to write and large to read."""
    n = int(10 ** rnd.uniform(1, 5.7))
    if is_toml:
        few = max(1, min(n, 900))
        key = b"a" + b".a" * few
        bombs = [
            b"x = " + b"[" * n + b"]" * n, b"x = " + b"[" * n, b"x = " + b"{a=" * n,
            b"[a" + b".a" * n + b"]\n",
            b"x = " + (b"{" + key + b" = ") * min(n // few + 1, 399) + b"1" + b"}" * min(n // few + 1, 399),
            b"x = " + b"9" * n, b"x = 0x" + b"f" * n, b"x = 1e" + b"9" * n, b"x = 0." + b"9" * n,
            b"x = [" + b"{}," * n + b"]", b"".join(b"[hypotheses.H%d]\n" % i for i in range(n // 20)),
            b"[[hypotheses]]\n" * (n // 15), b"".join(b"k%d = 1\n" % i for i in range(n // 9)),
            b"".join(b"[analyses.k%d]\n" % i for i in range(n // 18)), b"x = '''" + b"''\n" * (n // 3),
            b'x = """' + b'\\"""' * (n // 4), b"#" * n, b"\n" * n, b"[" + key + b"]\n",
            b'x = "' + "\u0345\u0301".encode() * (n // 4) + b'"\n',
            b"seeds = [" + b"1," * (n // 2) + b"]\n",
        ]  # fmt: skip
        at = raw.find(b"\n[", rnd.randrange(len(raw) + 1)) + 1
        return raw[:at] + rnd.choice(bombs) + b"\n" + raw[at:]
    bombs = [
        b"[" * n, b"[" * n + b"]" * n, b'{"a":' * n + b"1" + b"}" * n, b"9" * n, b"0." + b"9" * n,
        b"1e" + b"9" * n, b"[" + b"{}," * n + b"1]", b'"' + b"\\u0301" * (n // 6) + b'"',
        b"{" + b"".join(b'"k%d":1,' % i for i in range(n // 8))        + b'"z":1}', b" " * n,
        b'"' + b"a" * n + b'"', b"[" + b'"' + b"a" * 64 + b'",' * (n // 60) + b"1]",
    ]  # fmt: skip
    at = raw.find(b": ", rnd.randrange(len(raw) + 1)) + 2
    end = raw.find(b"\n", at)
    return raw[:at] + rnd.choice(bombs) + b"," + raw[end:]


def _structure(raw: bytes, rnd: random.Random, *, is_toml: bool) -> bytes:
    """Change the data rather than the text, and write it again in another spelling."""
    data = tomli.loads(raw.decode()) if is_toml else json.loads(raw)
    data = copy.deepcopy(data)
    for _ in range(rnd.choice([0, 1, 1, 2, 4])):
        _edit(data, rnd)
    if is_toml:
        return spell(_without_none(data), rnd)
    if rnd.random() < 0.5:
        data = dict(rnd.sample(list(data.items()), len(data)))
    text = json.dumps(data, ensure_ascii=rnd.random() < 0.5, indent=rnd.choice([None, 1, 2]))
    return text.encode("utf-8")


def _edit(data: Any, rnd: random.Random) -> None:
    at = rnd.choice([item for item in _containers(data) if item] or [data])
    if not at:
        return
    keys = list(at) if isinstance(at, dict) else list(range(len(at)))
    key, way = rnd.choice(keys), rnd.randrange(7)
    if way == 0:
        del at[key]
    elif way == 1:
        at[key] = copy.deepcopy(rnd.choice(ODD))
    elif way == 2:
        at[key] = copy.deepcopy(rnd.choice(list(_containers(data))))
    elif way == 3 and isinstance(at, dict):
        at[rnd.choice(["x", "", "e\u0301", "\u00e9", "a.b", "format", "rationale", "\x1b[2K"])] = (
            copy.deepcopy(at[key])
        )
    elif way == 3:
        at.append(copy.deepcopy(at[key]))
    elif way == 4:
        at[key] = [at[key]] if rnd.random() < 0.5 else {"x": at[key]}
    elif way == 5:
        at[key] = _near(at[key], rnd)
    else:
        other = rnd.choice(keys)
        at[key], at[other] = at[other], at[key]


def _near(value: Any, rnd: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        real = float(value) if abs(value) < 2**1000 else 1e308
        return rnd.choice([value + 1, -value, real, str(value), value * 10])
    if isinstance(value, float):
        return rnd.choice([value + 1e-12, -value, int(value), str(value), value / 3])
    if isinstance(value, str):
        form = unicodedata.normalize("NFD", value)
        return rnd.choice(
            [value + " ", value[:-1], value.upper(), form, f" {value}", value + "\u200b", value + "\r\n"]
        )
    return value


def _containers(data: Any) -> Iterator[Any]:
    if isinstance(data, dict | list):
        yield data
        for item in data.values() if isinstance(data, dict) else data:
            yield from _containers(item)


def _without_none(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_none(item) for key, item in data.items() if item is not None}
    return [_without_none(item) for item in data if item is not None] if isinstance(data, list) else data

"""Hostile files end in a PreregError or in what they say, never in a traceback; `benchmarks/fuzz.py` tries more."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from prereg.errors import PreregError, ProtocolError
from prereg.protocol import plain
from prereg.protocol.lines import locate_keys
from prereg.protocol.reader import parse_protocol
from tests.protocol.fuzz import SAMPLE, Target, attack, targets
from tests.protocol.mutators import TOKENS

HERE = Path("protocol.toml")
N_EACH = 400


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_no_variant_breaks_a_reader(target: Target) -> None:
    """A refusal in words, or the same digest exactly where the meaning is the same."""
    rnd = random.Random(20261130)
    n_read = 0
    n = N_EACH // 2 if target.name.startswith("registered") else N_EACH  # a large file
    for _ in range(n):
        raw, read, fault = attack(target, rnd)
        assert fault is None, (fault.what, raw[:2000])
        n_read += read
    # Both ends were reached: the mutators neither break everything nor nothing.
    assert n * 0.02 < n_read < n * 0.9


@pytest.mark.parametrize("token", TOKENS, ids=repr)
def test_no_token_breaks_the_readers_at_a_value(token: bytes) -> None:
    """Each hostile token once where a number, a text and a key stand."""
    raw = SAMPLE.read_bytes()
    for old in (b"0.1\n", b'"Does the reader', b"threshold"):
        for new in (token, b'"' + token + b'"'):
            assert old in raw
            with contextlib.suppress(PreregError):
                parse_protocol(raw.replace(old, new + b"\n", 1), HERE)


def refused(extra: str) -> str:
    """Return why the sample, with something added to an analysis' table, is refused."""
    text = SAMPLE.read_text("utf-8").replace("share = 1.0", f"share = 1.0\n{extra}")
    with pytest.raises(ProtocolError) as caught:
        parse_protocol(text.encode("utf-8"), HERE)
    return str(caught.value)


@pytest.mark.parametrize(
    "number", ["9" * 5_000, "0x" + "f" * 5_000, "9223372036854775808", "-9223372036854775809"]
)
def test_a_huge_integer_is_refused(number: str) -> None:
    """Python can't print the largest, and TOML has none beyond 64 bits."""
    message = refused(f"x = {number}")
    assert "protocol.toml" in message
    assert "digits" in message or ":75: analyses.kernels.x: an integer beyond TOML's 64 bits" in message


def test_the_largest_integers_of_toml_are_read() -> None:
    """The bounds themselves are inside."""
    text = SAMPLE.read_text("utf-8").replace("share = 1.0", f"x = [{2**63 - 1}, {-(2**63)}]")
    table = parse_protocol(text.encode("utf-8"), HERE).protocol.analyses["kernels"]
    assert table["x"] == [2**63 - 1, -(2**63)]


def test_nesting_that_is_cheap_to_write_is_refused_at_once() -> None:
    """Inline tables with dotted keys nest 350,000 deep in a megabyte; noting where each stands would take 400 GB."""
    key = "a" + ".a" * 900
    assert "more than 32 levels" in refused("x = " + f"{{{key} = " * 390 + "1" + "}" * 390)
    assert "more than 32 levels" in refused("x" + ".a" * 40 + " = 1")
    assert "nested too deeply" in refused("x = " + "[" * 100_000)


@pytest.mark.parametrize(
    "escape", ["\\u0000", "\\u001b[2K", "\\u0085", "\\r", "\\u007f", "\\u202e", "\\u2066"]
)
def test_text_that_reads_otherwise_than_it_is_written_is_refused(escape: str) -> None:
    """Control characters, and those that turn the direction of what follows, are named by line."""
    message = refused(f'x = "a{escape}b"')
    assert ":75: analyses.kernels.x: found the character U+" in message
    assert message.replace("\n", "").isprintable()
    message = refused(f'"a{escape}b" = 1')
    assert message.replace("\n", "").isprintable()


def test_a_pile_of_combining_marks_is_refused_at_once() -> None:
    """Bringing 400,000 of them into order takes most of a minute; no language has more than a few."""
    message = refused('x = "' + "\u0345\u0301" * 150_000 + '"')
    assert message == "protocol.toml:75: analyses.kernels.x: more than 30 combining marks in a row"
    with pytest.raises(ProtocolError, match="combining marks"):
        plain(["e" + "\u0345\u0301" * 16])
    assert plain("e" + "\u0301" * 30) == "\u00e9" + "\u0301" * 29


@pytest.mark.parametrize("text", ["a = [ } ]", "a = { ] }", "[[", "a = [=", "= = [ { , } ]", "]", "a = {[b]"])
def test_the_scanner_of_lines_comes_to_an_end(text: str) -> None:
    """It is only shown valid files; but were it ever wrong about one, it would be wrong and not stuck."""
    assert all(line == 1 for line in locate_keys(text).values())


def test_only_the_first_of_many_errors_are_put_into_words() -> None:
    """Five thousand unknown keys are eight lines and a count."""
    keys = "".join(f"k{i} = 1\n" for i in range(5_000))
    with pytest.raises(ProtocolError, match=r"and \d+ more") as caught:
        parse_protocol(f"[study]\n{keys}".encode(), HERE)
    assert len(str(caught.value)) < 2_000

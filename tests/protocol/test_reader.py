"""Reading a protocol: each fault is named by file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from prereg.errors import ProtocolError
from prereg.protocol import canonical_json, read_protocol

GOOD = Path(__file__).parents[1] / "data" / "protocol.toml"
REGISTERED = Path(__file__).parents[2] / "gates" / "delta_stream" / "protocol.toml"


@pytest.fixture
def text() -> str:
    return GOOD.read_text("utf-8")


def changed(tmp_path: Path, text: str, old: str, new: str) -> Path:
    """Write the text with one thing replaced, which must be there to replace."""
    assert text.count(old) >= 1, old
    file = tmp_path / "protocol.toml"
    file.write_bytes(text.replace(old, new, 1).encode("utf-8"))
    return file


def line_with(file: Path, needle: str) -> int:
    return next(i for i, line in enumerate(file.read_text("utf-8").splitlines(), 1) if needle in line)


def test_the_registered_study_is_read() -> None:
    """The project's own protocol keeps its own rules."""
    protocol = read_protocol(REGISTERED.parent).protocol
    assert set(protocol.published) <= set(protocol.hypotheses)
    assert len(protocol.twins.seeds) >= 3


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("threshold = 0.1", "treshold = 0.1", "hypotheses.H1.treshold", "unknown key"),
        ("threshold = 0.1", "threshold = nan", "hypotheses.H1.threshold", "found nan"),
        ("threshold = 0.1", "threshold = -inf", "hypotheses.H1.threshold", "found -inf"),
        ("threshold = 0.1", 'threshold = "0.1"', "hypotheses.H1.threshold", 'found "0.1"'),
        ("threshold = 0.1", "threshold = true", "hypotheses.H1.threshold", "found true"),
        ("threshold = 0.1", "threshold = 2026-01-01", "hypotheses.H1.threshold", "dates"),
        ("level = 0.95", "level = 1.0", "inference.level", "found 1.0"),
        ('fit = "history_1"', 'fit = ""', "hypotheses.H1.contrasts[0].terms[0].fit", 'found ""'),
        ("seeds = [11, 12, 13]", "seeds = [11, 12]", "twins.seeds", "found [11, 12]"),
        ("seeds = [11, 12, 13]", "seeds = [11, 12, 12]", "twins.seeds", "seed of its own"),
        ('path = "facts.csv"', 'path = "../facts.csv"', "facts.path", "inside the project"),
        ('path = "facts.csv"', 'path = "/facts.csv"', "facts.path", "inside the project"),
        ('path = "world.csv"', 'path = "/world.csv"', "facts.worlds[0].path", "inside the project"),
    ],
)
def test_a_bad_value_is_named_with_its_line(
    tmp_path: Path, text: str, old: str, new: str, key: str, message: str
) -> None:
    """The message holds file, line, dotted key and what was found."""
    file = changed(tmp_path, text, old, new)
    with pytest.raises(ProtocolError) as caught:
        read_protocol(file)
    assert f"{file}:{line_with(file, new)}: {key}: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("threshold = 0.1", "threshold = -0.1", "opposite sign"),
        ("threshold = 0.1", "threshold = 1.5", "beyond what R2 can reach"),
        ('units = "R2"', 'units = "furlongs"', "unknown units"),
        (
            'units = "R2"\ndirection = "less"\nthreshold = 0.02',
            'units = "share"\ndirection = "less"\nthreshold = -0.02',
            "can't be negative",
        ),
        (
            'direction = "equivalence"\nthreshold = 0.02',
            'direction = "equivalence"\nthreshold = 0.0',
            "must be positive",
        ),
        ('evidence = "kernels"', 'evidence = "kernel"', "there is no analysis 'kernel'"),
        ('updates = "deep"', 'updates = "deeper"', "there is no set of updates 'deeper'"),
        ('controls = ["sane"]', 'controls = ["sane", "other"]', "there is no control 'other'"),
        ("[published.H1]", "[published.H9]", "there is no hypothesis 'H9'"),
        ('arm = "twin-3"', 'arm = "twin-4"', "there is no arm 'twin-4'"),
        ('part_of = "deep"', 'part_of = "band"', "in a circle"),
        ("last = 2", "last = 2\nfrom_depth = 0.5", "found ['from_depth', 'last']"),
        ('family = "primary"', 'family = "secondary"', "no hypothesis is primary"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(
    tmp_path: Path, text: str, old: str, new: str, message: str
) -> None:
    """Thresholds of the wrong sign, names that don't meet, and empty families never load."""
    if 'family = "primary"' in old:
        text = text.replace('family = "primary"', 'family = "secondary"')
        old, new = "format = 1", "format = 1 "
    file = changed(tmp_path, text, old, new)
    with pytest.raises(ProtocolError, match=r"protocol\.toml:") as caught:
        read_protocol(file)
    assert message in str(caught.value)


def test_a_missing_key_points_at_its_table(tmp_path: Path, text: str) -> None:
    """What isn't there is reported where it belongs."""
    file = changed(tmp_path, text, "threshold = 0.1\n", "")
    with pytest.raises(ProtocolError) as caught:
        read_protocol(file)
    line = line_with(file, "[hypotheses.H1]")
    assert f"{file}:{line}: hypotheses.H1.threshold: missing key" in str(caught.value)


def test_a_duplicate_key_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    """TOML forbids it; the reader's line is passed on."""
    file = changed(tmp_path, text, "threshold = 0.1", "threshold = 0.1\nthreshold = 0.2")
    with pytest.raises(ProtocolError, match=r"not valid TOML.*line \d+"):
        read_protocol(file)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that aren't UTF-8 are named by line."""
    file = tmp_path / "protocol.toml"
    file.write_bytes(b"format = 1\nname = '\xff'\n")
    with pytest.raises(ProtocolError, match=r"protocol\.toml:2: not UTF-8"):
        read_protocol(file)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    """A protocol is read by people; a megabyte of it isn't one."""
    file = tmp_path / "protocol.toml"
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(ProtocolError, match="too large"):
        read_protocol(file)


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    """The next step is named."""
    with pytest.raises(ProtocolError, match="gates/delta_stream"):
        read_protocol(tmp_path)


def test_deep_nesting_is_an_error_not_a_crash(tmp_path: Path, text: str) -> None:
    """A hostile file ends in a ProtocolError."""
    file = tmp_path / "protocol.toml"
    file.write_text(text + "\ndeep = " + "[" * 5_000 + "]" * 5_000, "utf-8")
    with pytest.raises(ProtocolError):
        read_protocol(file)


class Kernels(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    orders: tuple[int, ...]
    share: float


def test_an_analysis_settings_are_checked_by_the_model_it_owns(tmp_path: Path, text: str) -> None:
    """Faults inside an analysis' table are named by line as well."""
    good = read_protocol(GOOD)
    assert good.settings("kernels", Kernels) == Kernels(orders=(1, 2), share=1.0)
    file = changed(tmp_path, text, "orders = [1, 2]", 'orders = [1, "two"]')
    with pytest.raises(ProtocolError) as caught:
        read_protocol(file).settings("kernels", Kernels)
    line = line_with(file, 'orders = [1, "two"]')
    assert f'{file}:{line}: analyses.kernels.orders[1]: found "two"' in str(caught.value)
    with pytest.raises(ProtocolError, match=r"no table \[analyses.other\]"):
        good.settings("other", Kernels)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threshold = 0.1", "threshold = 1e-1"),
        ("threshold = 0.1", "threshold = 0.1 # a comment"),
        ("orders = [1, 2]", "orders = [\n  1,\n  2,\n]"),
        ("weight = 1.0", "weight = 1"),
        ("weight = -1.0", "weight = -1"),
        ("share = 1.0", "share = 1"),
        ('question = "Does', 'question = "D\\u006Fes'),
        ("café", "cafe\u0301"),
        ("\n", "\r\n"),
    ],
)
def test_spelling_does_not_change_the_digest(tmp_path: Path, text: str, old: str, new: str) -> None:
    """The same promise written in another way has the same digest."""
    file = tmp_path / "protocol.toml"
    assert old in text
    file.write_bytes(text.replace(old, new).encode("utf-8"))
    assert read_protocol(file).digest == read_protocol(GOOD).digest


def test_key_order_does_not_change_the_digest(tmp_path: Path, text: str) -> None:
    """Tables may stand in any order."""
    head, *tables = text.split("\n[prompts]")
    body, tail = tables[0].split("\n[split]", 1)
    split, rest = tail.split("\n[capture]", 1)
    file = tmp_path / "protocol.toml"
    file.write_text(f"{head}\n[split]{split}\n[prompts]{body}\n[capture]{rest}", "utf-8")
    assert read_protocol(file).digest == read_protocol(GOOD).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threshold = 0.1", "threshold = 0.1000000000000001"),
        ("orders = [1, 2]", "orders = [2, 1]"),
        ("seed = 3", "seed = 4"),
        ("café", "cafe"),
        ('verdict = "supported"', 'verdict = "refuted"'),
    ],
)
def test_any_change_of_a_value_changes_the_digest(tmp_path: Path, text: str, old: str, new: str) -> None:
    """However small, a changed promise is another promise."""
    assert read_protocol(changed(tmp_path, text, old, new)).digest != read_protocol(GOOD).digest


def test_the_digest_is_golden() -> None:
    """The canonical form is part of every registration: it may not drift between releases."""
    protocol_file = read_protocol(GOOD)
    assert canonical_json(protocol_file.protocol).startswith(
        '{"analyses":{"kernels":{"orders":[1,2],"share":1}}'
    )
    assert protocol_file.digest == "96a9a50de9e93a9e3ebac7155cab28ede6af269ecccd9c8c4e6aaa92da7c5345"


@pytest.mark.parametrize(
    ("n_layers", "expected"),
    [
        (8, {"deep": (1, 2, 3, 4, 5, 6, 7), "last_two": (6, 7), "band": (6, 7)}),
        (30, {"deep": tuple(range(4, 30)), "last_two": (28, 29), "band": tuple(range(22, 30))}),
    ],
)
def test_named_sets_fit_any_depth(n_layers: int, expected: dict[str, tuple[int, ...]]) -> None:
    """Fractions, tails and bands resolve to updates of the model at hand."""
    assert read_protocol(GOOD).protocol.resolve_updates(n_layers) == expected


def test_bands_are_contiguous_and_cover_their_set() -> None:
    """Every update of the parent is in just one band, and no band is more than one longer than another."""
    protocol = read_protocol(REGISTERED).protocol
    for n_layers in range(8, 40):
        sets = protocol.resolve_updates(n_layers)
        bands = [sets[f"band_{i}"] for i in (1, 2, 3, 4)]
        assert sum(bands, ()) == sets["whole_stack"]
        assert max(map(len, bands)) - min(map(len, bands)) <= 1


def test_a_set_that_is_empty_at_this_depth_is_an_error() -> None:
    """A model too shallow for the study is told so."""
    with pytest.raises(ValueError, match=r"updates.deep is empty for a model of 1 blocks"):
        read_protocol(GOOD).protocol.resolve_updates(1)

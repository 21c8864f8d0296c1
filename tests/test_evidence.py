"""Evidence is bound to its record, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from prereg.errors import EvidenceError
from prereg.evidence import (
    Check,
    Evidence,
    Provenance,
    digest_of,
    read_evidence,
    read_provenance,
    write_evidence,
)


def provenance(key: str = "k1") -> Provenance:
    return Provenance(
        study="s", analysis="kernels", arm="model", key=key, model="m", model_source="folder", model_revision="r",
        model_digest="d", store_digest="t", protocol_digest="p", facts_sha256="f", settings={"orders": [1]},
        source_digest="s",
        libraries={"numpy": "2"}, n_layers=2, d_model=4, n_prompts=2, n_subjects=2, n_training_prompts=3,
        update_sets={"all": [0, 1]},
    )  # fmt: skip


def evidence(key: str = "k1") -> Evidence:
    table = pa.table(
        {
            "prompt": ["a", "b"], "subject": ["x", "y"], "relation": ["r", "r"], "template": ["t", "t"],
            "update": pa.array([1, 1], pa.int16()), "sst": [1.0, 2.0], "sse.fit": [0.5, 0.25],
        }
    )  # fmt: skip
    side = {"fits": pa.table({"update": [1], "penalty": [0.1]})}
    return Evidence(table, side, (Check(name="c", passed=True, detail="fine"),), provenance(key))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Tables, side tables, checks and record survive the disk."""
    write_evidence(evidence(), tmp_path, "kernels.model")
    back = read_evidence(tmp_path, "kernels.model", key="k1")
    assert back.table.equals(evidence().table)
    assert back.side["fits"].equals(evidence().side["fits"])
    assert back.fits == ("fit",)
    assert back.checks == evidence().checks


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """A second run leaves nothing to commit."""
    write_evidence(evidence(), tmp_path / "one", "e")
    write_evidence(evidence(), tmp_path / "two", "e")
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


@pytest.mark.parametrize("name", ["e.parquet", "e.fits.parquet"])
def test_one_flipped_bit_is_detected(tmp_path: Path, name: str) -> None:
    """An edited table is no evidence."""
    write_evidence(evidence(), tmp_path, "e")
    raw = bytearray((tmp_path / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(EvidenceError, match="changed after it was measured"):
        read_evidence(tmp_path, "e", key="k1")


def test_another_key_is_refused_and_both_are_named(tmp_path: Path) -> None:
    """Evidence for another question is never shown as an answer to this one."""
    write_evidence(evidence("k1"), tmp_path, "e")
    with pytest.raises(EvidenceError, match="measured under key k1, the protocol as it stands wants k2"):
        read_evidence(tmp_path, "e", key="k2")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    """The remedy is to measure again."""
    write_evidence(evidence(), tmp_path, "e")
    (tmp_path / "e.fits.parquet").unlink()
    with pytest.raises(EvidenceError, match=r"e\.fits\.parquet is missing"):
        read_evidence(tmp_path, "e", key="k1")


def test_no_evidence_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """What isn't there can't be read as empty."""
    assert read_provenance(tmp_path, "e") is None
    with pytest.raises(EvidenceError, match="prereg measure"):
        read_evidence(tmp_path, "e", key="k1")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "extra": 2}'])
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    """A record that isn't one is named, with the file."""
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(EvidenceError, match=r"e\.json is not a record"):
        read_provenance(tmp_path, "e")


def test_a_record_can_not_point_outside_its_folder(tmp_path: Path) -> None:
    """A hostile record reads no file of its choice."""
    write_evidence(evidence(), tmp_path / "in", "e")
    file = tmp_path / "in" / "e.json"
    record = json.loads(file.read_text())
    record["tables"]["../secret.parquet"] = "0" * 64
    file.write_text(Provenance.model_validate_json(json.dumps(record)).sealed().model_dump_json())
    with pytest.raises(EvidenceError, match="outside its folder"):
        read_evidence(tmp_path / "in", "e", key="k1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("checks", []),
        ("update_sets", {"all": [1]}),
        ("arm", "twin-1"),
        ("protocol_digest", "q"),
        ("n_layers", 3),
    ],
)
def test_an_edited_record_is_detected(tmp_path: Path, field: str, value: object) -> None:
    """A record is bound to itself: dropping a failed check or renaming an arm breaks its seal."""
    write_evidence(evidence(), tmp_path, "e")
    file = tmp_path / "e.json"
    record = json.loads(file.read_text())
    record[field] = value
    file.write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match=r"e\.json was edited"):
        read_evidence(tmp_path, "e", key="k1")


def test_empty_and_incomplete_tables_are_refused() -> None:
    """No rows, or no sst, is no evidence."""
    with pytest.raises(EvidenceError, match="no rows"):
        Evidence(evidence().table.slice(0, 0))
    with pytest.raises(EvidenceError, match="lacks the columns sst"):
        Evidence(evidence().table.drop_columns(["sst"]))


def test_evidence_without_provenance_is_not_written(tmp_path: Path) -> None:
    """A table whose origin nobody recorded stays out of the folder."""
    with pytest.raises(EvidenceError, match="without provenance"):
        write_evidence(Evidence(evidence().table), tmp_path, "e")


def test_the_digest_of_a_value_ignores_key_order_only() -> None:
    """Order of keys is no content; a changed number is."""
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})

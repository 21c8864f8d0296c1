"""Checks of results: evidence and the verdicts that follow from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prereg.evidence import read_provenance
from prereg.registration.standing import Standing
from tests import synthetic
from tests.audit.projects import REPORTS, STUDY, Project, of, said

EVIDENCE = f"{REPORTS}/evidence"
TABLE = f"{EVIDENCE}/kernels.model.parquet"
RECORD = f"{EVIDENCE}/kernels.model.json"


def reseal(project: Project, **fields: object) -> None:
    """Edit a record of evidence and give it the seal of what it says now."""
    record = read_provenance(project.path(EVIDENCE), "kernels.model")
    assert record is not None
    edited = record.model_copy(update=fields).sealed()
    project.write(RECORD, json.dumps(edited.model_dump(mode="json")))


def retable(project: Project, table: pa.Table) -> None:
    """Put another main table in place, with its digest in a resealed record."""
    import blake3

    pq.write_table(table, project.path(TABLE))
    record = read_provenance(project.path(EVIDENCE), "kernels.model")
    assert record is not None
    digest = blake3.blake3(project.path(TABLE).read_bytes()).hexdigest()
    reseal(project, tables={**record.tables, "kernels.model.parquet": digest})


# -- evidence -------------------------------------------------------------------------------------------


def test_a_flipped_byte_in_a_table_is_a_violation(project: Project) -> None:
    """The record holds the digest of each table's bytes."""
    raw = bytearray(project.path(TABLE).read_bytes())
    raw[200] ^= 1
    project.write(TABLE, bytes(raw))
    report = project.audit()
    assert report.exit_code == 1
    assert "kernels.model.parquet: digest" in said(of(report, "evidence", "violation"))
    assert "not recomputed" in said(of(report, "verdicts", "unverified"))


def test_an_edited_record_is_a_violation(project: Project) -> None:
    """A record that isn't what was sealed can't be relied on."""
    project.edit(RECORD, '"n_prompts": 80', '"n_prompts": 81')
    assert "edited" in said(of(project.audit(), "evidence", "violation"))


def test_a_missing_table_is_a_violation(project: Project) -> None:
    """A table that the record names must be there."""
    project.path(TABLE).unlink()
    assert of(project.audit(), "evidence", "violation")


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"registration": None}, "unverified", "measured under registration none, in force is"),
        ({"registration": "d" * 64}, "unverified", "measured under registration dddddddddddd"),
        ({"protocol_digest": "d" * 64}, "violation", "measured under protocol dddddddddddd"),
        ({"key": "d" * 32}, "unverified", "measured under key dddddddddddd"),
        ({"facts_sha256": "d" * 64}, "unverified", "measured on facts dddddddddddd"),
        ({"model_revision": "dddddddddddddddd"}, "unverified", "measured on dddddddddddd, registered is"),
        ({"libraries": {"numpy": "1.0"}}, "unverified", "numpy 1.0 (registered"),
        ({"update_sets": {}}, "violation", "sets of updates"),
        ({"study": "other"}, "violation", "its study is other"),
        ({"model": "smollm2-135m"}, "violation", "its model is smollm2-135m"),
        ({"n_prompts": 7}, "violation", "prompts: recorded 7, in the table 80"),
        ({"n_subjects": 7}, "violation", "subjects: recorded 7, in the table 40"),
        ({"n_layers": 9}, "violation", "layers: recorded 9, in the table 8"),
        ({"tables": {"../../../../facts.csv": "d" * 64}}, "violation", "may not lie outside its folder"),
    ],
)
def test_a_record_that_says_otherwise_is_named(
    project: Project, fields: dict[str, object], status: str, words: str
) -> None:
    """Each field that a registration decides is compared with it, seal or no seal."""
    reseal(project, **fields)
    assert words in said(of(project.audit(), "evidence", status))


def test_a_table_of_an_odd_type_is_never_opened(project: Project) -> None:
    """A nested or foreign column is refused from the footer, and nothing is recomputed from it."""
    table = pq.ParquetFile(project.path(TABLE)).read()
    retable(project, table.append_column("odd", pa.array([[1]] * table.num_rows)))
    report = project.audit()
    assert "columns of a type that evidence never has: odd" in said(of(report, "evidence", "violation"))
    assert "not recomputed" in said(of(report, "verdicts", "unverified"))


def test_a_table_with_rows_left_out_is_a_violation(project: Project) -> None:
    """The counts of the record are those of the table."""
    table = pq.ParquetFile(project.path(TABLE)).read()
    retable(project, table.slice(0, table.num_rows - 7))
    assert "in the table" in said(of(project.audit(), "evidence", "violation"))


def test_a_link_in_the_reports_is_not_followed(project: Project) -> None:
    """What lies outside of the reports is not read, and the model is named as not looked at."""
    outside = project.path("elsewhere.json")
    project.path(RECORD).rename(outside)
    project.path(RECORD).symlink_to(outside)
    text = said(of(project.audit(), "evidence", "unverified"))
    assert "is a link, which is not followed" in text
    assert "pythia-tiny" in text


def test_a_folder_that_is_no_model_is_named(project: Project) -> None:
    """Reports of nobody are unverified, not passed over."""
    project.write("reports/sample/nobody/verdicts.json", "{}")
    assert "nobody: its name leads to no model" in said(of(project.audit(), "evidence", "unverified"))


def test_verdicts_without_evidence_are_unverified(project: Project) -> None:
    """A verdicts.json whose evidence is gone shows nothing."""
    for file in project.path(EVIDENCE).iterdir():
        file.unlink()
    text = said(of(project.audit(), "evidence", "unverified"))
    assert "no evidence for H1, H1-order, though verdicts.json is there" in text


# -- verdicts -------------------------------------------------------------------------------------------


def edited_verdicts(project: Project, **fields: object) -> None:
    file = f"{REPORTS}/verdicts.json"
    document = json.loads(project.read(file))
    document["verdicts"][0] |= fields
    project.write(file, json.dumps(document, indent=2, sort_keys=True) + "\n")


def test_a_field_edited_in_verdicts_json_is_a_violation(project: Project) -> None:
    """The field is named with the recorded and the recomputed value."""
    edited_verdicts(project, low=0.2)
    text = said(of(project.audit(), "verdicts", "violation"))
    assert "verdicts.H1.low: recorded 0.2, recomputed 0.4" in text


def test_a_greener_outcome_is_a_violation(frozen: Project) -> None:
    """A refuted claim that is recorded as supported is named first."""
    synthetic.measured(frozen.root, effect=0.02)
    frozen.commit("Measure")
    assert frozen.audit().exit_code == 0
    edited_verdicts(frozen, outcome="supported")
    text = said(of(frozen.audit(), "verdicts", "violation"))
    assert "H1: recorded supported, recomputed refuted" in text


@pytest.mark.parametrize("name", ["verdicts.csv", "contrasts.csv", "permutations.csv", "r2_by_update.csv"])
def test_an_edited_table_is_a_violation(project: Project, name: str) -> None:
    """Every table of the report is made again and compared, field by field."""
    file = f"{REPORTS}/{name}"
    head, first, *rest = project.read(file).splitlines()
    fields = first.split(",")
    at = next(i for i, f in enumerate(fields) if f.startswith("0."))
    fields[at] = "0.123"
    project.write(file, "\n".join([head, ",".join(fields), *rest]) + "\n")
    text = said(of(project.audit(), "verdicts", "violation"))
    assert f"{name} is not what the evidence gives" in text
    assert '"0.123"' in text


def test_a_table_that_is_gone_is_unverified(project: Project) -> None:
    """What must be there and isn't is no proof of an edit."""
    project.path(f"{REPORTS}/contrasts.csv").unlink()
    assert "contrasts.csv is missing" in said(of(project.audit(), "verdicts", "unverified"))


def test_a_verdicts_json_that_was_removed_is_unverified(project: Project) -> None:
    """Taking the answer away doesn't leave a study that was never answered."""
    project.path(f"{REPORTS}/verdicts.json").unlink()
    project.commit("Take away")
    report = project.audit()
    assert report.exit_code == 2
    assert "verdicts.json was committed" in said(of(report, "verdicts", "unverified"))
    assert "0 of 2 tested" in said(of(report, "accounting", "note"))


def test_a_table_with_crlf_is_the_same_table(project: Project) -> None:
    """A checkout with other line ends is no edit."""
    file = f"{REPORTS}/contrasts.csv"
    project.write(file, project.read(file).replace("\n", "\r\n"))
    assert of(project.audit(), "verdicts", "violation") == []


def test_a_verdicts_json_that_is_none_is_a_violation(project: Project) -> None:
    """A file that can't be read is never taken for a good one."""
    project.write(f"{REPORTS}/verdicts.json", '{"verdicts": [NaN]}')
    assert of(project.audit(), "verdicts", "violation")


def test_verdicts_written_under_no_registration_are_unverified(project: Project) -> None:
    """A report that doesn't carry the root in force isn't this registration's, though its numbers are right."""
    file = f"{REPORTS}/verdicts.json"
    document = json.loads(project.read(file))
    unregistered = Standing("unregistered").as_record()
    document["registration"] = unregistered
    for verdict in document["verdicts"]:
        verdict |= {"registration": unregistered, "outcome": "unverified"}
    project.write(file, json.dumps(document))
    report = project.audit()
    assert of(report, "verdicts", "violation") == [], said(of(report, "verdicts"))
    assert "written as unregistered under none" in said(of(report, "verdicts", "unverified"))


def test_verdicts_recomputed_in_a_shallow_clone_are_no_violation(project: Project, tmp_path: Path) -> None:
    """What can't be seen there makes nobody a forger: the numbers still follow from the evidence."""
    project.commit("Another")
    clone = tmp_path / "clone"
    project.git("clone", "--quiet", "--depth=1", f"file://{project.root}", str(clone))
    report = project.audit(root=clone)
    assert report.exit_code == 2
    assert of(report, "verdicts", "violation") == [], said(of(report, "verdicts"))


def test_a_tampered_promise_does_not_change_what_is_recomputed(project: Project) -> None:
    """Verdicts are recomputed for the promise in force, not for the edited file."""
    project.looser("0.6")
    report = project.audit()
    assert of(report, "promise", "violation")
    assert next(v.threshold for v in report.verdicts if v.hypothesis == "H1") == 0.1


def test_hypotheses_in_another_order_are_the_same_answers(project: Project) -> None:
    """The order of tables in a protocol promises nothing, so that of rows shows nothing."""
    file = f"{STUDY}/protocol.toml"
    text = project.read(file)
    first, second = text.index("[hypotheses.H1]"), text.index("[hypotheses.H1-order]")
    end = text.index("[published.H1]")
    moved = text[:first] + text[second:end] + text[first:second] + text[end:]
    project.write(file, moved)
    project.commit("Reorder")
    report = project.audit()
    assert report.exit_code == 0, said(report.findings)


def test_only_the_named_model_is_looked_at(project: Project) -> None:
    """--model restricts evidence and verdicts, not the history."""
    project.write("reports/sample/nobody/verdicts.json", "{}")
    report = project.audit(["pythia-tiny"])
    assert "nobody" not in said(of(report, "evidence"))
    assert of(report, "verdicts", "verified")


def test_an_audit_imports_neither_torch_nor_pandas(project: Project) -> None:
    """A reviewer needs no model and no framework to run one."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from prereg.audit import audit, page\n"
        "from prereg.console import to_text\n"
        "from prereg.pipeline import RunOptions\n"
        "from prereg.report import report_contents\n"
        f"report = audit(Path({STUDY!r}), RunOptions(root=Path.cwd()), tables=report_contents)\n"
        "to_text(page(report), 80, False)\n"
        "heavy = {'torch', 'pandas', 'scipy', 'transformers', 'arch'} & set(sys.modules)\n"
        "print(len(report.verdicts), sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2 []"

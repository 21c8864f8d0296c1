"""A measurement gives one table: a record that was written anew around other numbers is seen in the history."""

from __future__ import annotations

from pathlib import Path

from prereg.audit import audit
from prereg.report import report_contents
from tests.synthetic import commit, measured, options, registered_project


def test_two_tables_of_one_measurement_are_unverified(tmp_path: Path) -> None:
    """Same weights, store, source and libraries, other numbers: named with both commits."""
    folder = registered_project(tmp_path, effect=0.03)
    measured(tmp_path, effect=0.5)
    commit(tmp_path, "Measure again")
    report = audit(folder, options(tmp_path), tables=report_contents)
    found = [f for f in report.findings if "the same measurement gave 2 different tables" in f.message]
    assert [f.message.split(":")[1].strip() for f in found] == ["kernels.model", "kernels.twin-3"]
    assert all(f.status == "unverified" and len(f.commits) == 2 for f in found)
    assert report.exit_code == 2


def test_one_table_that_was_committed_twice_is_one(tmp_path: Path) -> None:
    """The same bytes again are no second answer."""
    folder = registered_project(tmp_path)
    measured(tmp_path)
    commit(tmp_path, "Nothing new")
    assert audit(folder, options(tmp_path), tables=report_contents).exit_code == 0

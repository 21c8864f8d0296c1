"""Checks of the history: repository, registration, order, promise and windows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prereg.audit import audit
from prereg.registration.imports import PACKAGE
from tests import synthetic
from tests.audit.projects import REPORTS, STUDY, Project, of, said


def test_a_registered_study_is_verified(project: Project) -> None:
    """Nothing is in doubt where a study was registered, measured and committed in that order."""
    report = project.audit()
    assert report.exit_code == 0, said(report.findings)
    assert report.result == "verified"
    checks = [f.check for f in report.findings if f.status == "verified"]
    assert {"repository", "registration", "order", "promise", "windows", "components", "attempts"} <= set(
        checks
    )
    assert {"evidence", "verdicts", "accounting"} <= set(checks)


def test_what_is_not_there_is_never_verified(frozen: Project) -> None:
    """A study that wasn't measured has no verified line on evidence, verdicts or attempts."""
    report = frozen.audit()
    assert of(report, "evidence", "verified") == of(report, "verdicts", "verified") == []
    assert of(report, "attempts", "verified") == of(report, "witnesses", "verified") == []
    assert "no evidence" in said(of(report, "evidence", "note"))


# -- repository -----------------------------------------------------------------------------------------


def test_no_git_is_unverified(project: Project) -> None:
    """Without a history nothing shows the order, whatever the files say."""
    shutil.rmtree(project.root / ".git")
    report = project.audit(())
    assert report.exit_code == 2
    assert "git" in said(of(report, "repository", "unverified"))
    assert of(report, "repository", "unverified")[0].remedy


def test_a_shallow_clone_is_unverified_with_the_command_that_settles_it(
    project: Project, tmp_path: Path
) -> None:
    """What a clone cut off can't be seen, and the remedy says how to get it."""
    project.commit("Another")
    clone = tmp_path / "clone"
    project.git("clone", "--quiet", "--depth=1", f"file://{project.root}", str(clone))
    report = project.audit((), root=clone)
    assert report.exit_code == 2, said(report.findings)
    assert "git fetch --unshallow" in said(of(report, "repository", "unverified"))


def test_replaced_objects_are_unverified(project: Project) -> None:
    """A history that git shows otherwise than it was committed is said to be so."""
    project.git("replace", "HEAD", "HEAD~1")
    report = project.audit(())
    assert report.exit_code == 2
    assert "replaced" in said(of(report, "repository", "unverified"))


def test_uncommitted_edits_are_named(project: Project) -> None:
    """A table that isn't as committed is unverified, by name."""
    project.write("facts.csv", "subject,answer\nx,y\n")
    report = project.audit(())
    assert "facts.csv: modified" in said(of(report, "repository", "unverified"))


def test_results_that_were_never_committed_are_unverified(frozen: Project) -> None:
    """Evidence that no commit holds has no place in the order."""
    synthetic.measured(frozen.root)
    report = frozen.audit()
    assert report.exit_code == 2, said(report.findings)
    assert "untracked" in said(of(report, "repository", "unverified"))


def test_results_that_git_ignores_are_unverified(frozen: Project) -> None:
    """A rule in .gitignore doesn't take results out of the order: they have none."""
    frozen.write(".gitignore", frozen.read(".gitignore") + "/reports/\nattempts/\n")
    frozen.commit("Ignore")
    synthetic.measured(frozen.root)
    report = frozen.audit()
    assert report.exit_code == 2, said(report.findings)
    text = said(of(report, "repository", "unverified"))
    assert f"{REPORTS}/evidence/kernels.model.json" in text
    assert f"{STUDY}/attempts/" in text


# -- registration ---------------------------------------------------------------------------------------


def test_a_study_without_registration_is_unverified(tmp_path: Path) -> None:
    """No freeze is on record: the audit says so, and how to get one."""
    synthetic.make_project(tmp_path)
    synthetic.git(tmp_path, "init", "--quiet")
    synthetic.commit(tmp_path, "Write the study")
    report = Project(tmp_path).audit(())
    assert report.exit_code == 2
    assert of(report, "registration")[0].remedy == f"prereg freeze {STUDY}"


def test_a_registration_that_was_never_committed_is_unverified(frozen: Project) -> None:
    """A file in the working tree alone came at no time that anybody can see."""
    frozen.git("reset", "--quiet", "--soft", "HEAD~1")
    frozen.git("reset", "--quiet")
    report = frozen.audit(())
    assert report.exit_code == 2
    assert "in no commit" in said(of(report, "registration", "unverified"))


def refreeze(project: Project) -> str:
    """Remove the registration and freeze again what is there now."""
    project.path(f"{STUDY}/registration.json").rename(project.path("old.json"))
    hidden = project.path("old.json").read_bytes()
    project.path("old.json").unlink()
    data = json.loads(hidden)
    from prereg.registration.freeze import components_of
    from prereg.registration.records import Registration, protocol_data, sealed, write_record

    study = synthetic.prepared(project.root)
    content = {k: v for k, v in data.items() if k != "root"}
    content |= {
        "date": "2020-01-01T00:00:00Z",
        "components": components_of(study).model_dump(mode="json"),
        "protocol": protocol_data(study.protocol),
    }
    record = sealed(Registration, content)
    write_record(project.path(f"{STUDY}/registration.json"), record)
    return record.root


def test_a_second_freeze_is_a_violation_and_the_first_one_counts(project: Project) -> None:
    """Edited, frozen again, date set back: the audit goes by the first commit, and names the second."""
    first = json.loads(project.read(f"{STUDY}/registration.json"))["root"]
    project.looser()
    second = refreeze(project)
    commit = project.commit("Freeze")
    report = project.audit(())
    assert report.exit_code == 1
    text = said(of(report, "registration", "violation"))
    assert f"frozen again in {commit[:12]}" in text
    assert second[:12] in text
    assert report.head.root == first
    assert "0.1 -> 0.05, looser" in said(of(report, "promise", "violation"))


def test_a_second_freeze_that_was_not_committed_is_a_violation(project: Project) -> None:
    """The file in the working tree is compared as well."""
    project.looser()
    refreeze(project)
    assert "frozen again and not committed" in said(of(project.audit(()), "registration", "violation"))


def test_a_second_freeze_that_was_reverted_is_still_a_violation(project: Project) -> None:
    """What a commit held once is on record, though the file is the old one again."""
    project.looser()
    refreeze(project)
    commit = project.commit("Freeze")
    project.git("revert", "--no-edit", commit)
    report = project.audit(())
    assert commit in of(report, "registration", "violation")[0].commits
    assert commit in of(report, "windows", "violation")[0].commits


def test_a_registration_that_is_gone_is_a_violation(project: Project) -> None:
    """Removing the promise doesn't undo it: the commit that removed it is named."""
    project.path(f"{STUDY}/registration.json").unlink()
    commit = project.commit("Tidy up")
    report = project.audit(())
    assert report.exit_code == 1
    assert commit in of(report, "registration", "violation")[0].commits


def test_a_registration_put_back_as_it_was_is_a_note(project: Project) -> None:
    """The same content, removed and put back, bent nothing; it is mentioned."""
    text = project.read(f"{STUDY}/registration.json")
    project.path(f"{STUDY}/registration.json").unlink()
    removed = project.commit("Remove")
    project.write(f"{STUDY}/registration.json", text)
    project.commit("Put back")
    report = project.audit(())
    assert of(report, "registration", "violation") == []
    assert f"removed in {removed[:12]} and put back" in said(of(report, "registration", "note"))


def test_an_edited_registration_is_a_violation(project: Project) -> None:
    """A root that isn't the digest of the content is caught before anything else is read from it."""
    project.edit(f"{STUDY}/registration.json", '"known": "none"', '"known": "full"')
    report = project.audit(())
    assert report.exit_code == 1
    assert of(report, "registration", "violation")


def test_a_claimed_date_is_never_believed(frozen: Project) -> None:
    """A date far from the commit's is a note, and the page vouches for neither."""
    frozen.git("reset", "--quiet", "--hard", "HEAD~1")
    from datetime import UTC, datetime

    from prereg.registration.freeze import freeze

    freeze(
        synthetic.prepared(frozen.root), known="none", statement=None, now=datetime(2020, 1, 1, tzinfo=UTC)
    )
    frozen.commit("Register")
    text = said(of(frozen.audit(()), "registration", "note"))
    assert "dates far apart: it says 2020-01-01" in text
    assert "nothing in the history vouches for them" in text


def test_a_backdated_history_is_a_note(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits dated before their parents are counted, and prove nothing."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    project.commit("Backdated")
    assert "dated before their parents" in said(of(project.audit(()), "registration", "note"))


def test_line_ends_of_a_checkout_are_no_second_freeze(project: Project) -> None:
    """A registration written anew with CRLF says the same, so it is the same."""
    text = project.read(f"{STUDY}/registration.json").replace("\n", "\r\n")
    project.write(f"{STUDY}/registration.json", text)
    project.commit("Line ends")
    assert of(project.audit(()), "registration", "violation") == []


# -- order ----------------------------------------------------------------------------------------------


def test_a_squash_of_registration_and_results_is_unverified(project: Project) -> None:
    """Together in one commit they show no order; the commit is named."""
    project.git("reset", "--quiet", "--soft", "HEAD~2")
    commit = project.commit("Everything")
    report = project.audit(())
    assert report.exit_code == 2, said(report.findings)
    text = said(of(report, "order", "unverified"))
    assert f"first appear together in {commit[:12]}" in text
    assert f"{REPORTS}/verdicts.json" in text


def test_results_before_their_registration_are_a_violation(project: Project) -> None:
    """Results that carry the root and were committed before it can't have come after it."""
    registration = project.read(f"{STUDY}/registration.json")
    project.git("reset", "--quiet", "--soft", "HEAD~2")
    project.path(f"{STUDY}/registration.json").unlink()
    results = project.commit("Results")
    project.write(f"{STUDY}/registration.json", registration)
    project.commit("Register")
    report = project.audit(())
    assert report.exit_code == 1
    assert results in of(report, "order", "violation")[0].commits


def test_results_from_a_branch_without_the_registration_are_unverified(project: Project) -> None:
    """A branch that never held the registration shows no order."""
    project.git("branch", "results")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    project.git("switch", "--quiet", "--orphan", "side")
    project.git("checkout", "results", "--", "reports")
    project.commit("Results")
    project.git("switch", "--quiet", "main")
    project.git("merge", "--quiet", "--no-edit", "--allow-unrelated-histories", "side")
    report = project.audit(())
    assert "a branch that did not hold it" in said(of(report, "order", "unverified"))


def test_a_renamed_folder_keeps_its_order(project: Project) -> None:
    """The registration that lay beside, under the folder's old name, is the one that came first."""
    project.git("mv", STUDY, "gates/renamed")
    project.commit("Rename")
    report = audit(project.path("gates/renamed"), synthetic.options(project.root), ())
    assert of(report, "order", "violation", "unverified") == [], said(of(report, "order"))
    assert f"lay at {STUDY}/registration.json" in said(of(report, "order", "note"))


def freeze_after_results(root: Path, known: str) -> Project:
    """Measure first and register then, claiming to know nothing or everything."""
    project = Project(root)
    synthetic.frozen_project(root)
    denying = project.read(f"{STUDY}/registration.json")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    synthetic.measured(root)
    project.commit("Results")
    if known == "full":
        synthetic.register(root, known="full", statement="All verdicts were seen.")
    else:
        project.write(f"{STUDY}/registration.json", denying)
    project.commit("Register")
    return project


def test_results_before_the_freeze_that_it_admits_are_a_note(tmp_path: Path) -> None:
    """Verdicts on data that were seen are no predictions, and the page says so."""
    report = freeze_after_results(tmp_path / "p", "full").audit(())
    text = said(of(report, "order", "note"))
    assert "results on pythia-tiny were on record at the freeze: verdicts on them are not predictions" in text
    assert of(report, "order", "violation") == []


def test_results_before_the_freeze_that_it_denies_are_a_violation(tmp_path: Path) -> None:
    """A claim that nothing was known is contradicted by the history."""
    report = freeze_after_results(tmp_path / "p", "none").audit(())
    assert report.exit_code == 1
    assert "pythia-tiny were committed before the freeze" in said(of(report, "order", "violation"))


def test_results_under_another_registration_are_unverified(project: Project) -> None:
    """A root that is no link of the chain is named beside the one in force."""
    file = f"{REPORTS}/evidence/kernels.model.json"
    root = json.loads(project.read(f"{STUDY}/registration.json"))["root"]
    project.write(file, project.read(file).replace(root, "e" * 64))
    project.commit("Other evidence")
    text = said(of(project.audit(()), "order", "unverified"))
    assert "eeeeeeeeeeee" in text
    assert root[:12] in text


# -- promise and windows --------------------------------------------------------------------------------


def test_an_edited_threshold_is_a_violation_with_both_values(project: Project) -> None:
    """The key, the frozen and the present value are named, committed or not."""
    project.looser()
    report = project.audit(())
    assert report.exit_code == 1
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in said(of(report, "promise", "violation"))


def test_a_protocol_that_cannot_be_read_is_a_violation(project: Project) -> None:
    """Where something was promised, a file that promises nothing isn't it."""
    project.write(f"{STUDY}/protocol.toml", "format = nan")
    assert of(project.audit(()), "promise", "violation")


def test_an_edit_that_was_reverted_is_a_window(project: Project) -> None:
    """Edit, commit, revert: the window is named with what the promise said in it."""
    project.looser()
    began = project.commit("Loosen")
    project.write("notes.txt", "nothing")
    ended = project.commit("Another")
    project.stricter()
    project.commit("Revert")
    report = project.audit(())
    assert report.exit_code == 1
    (window,) = of(report, "windows", "violation")
    assert window.commits == (began, ended)
    assert "hypotheses.H1.threshold: 0.1 -> 0.05, looser" in window.details
    assert "no result came in it" in window.message
    assert of(report, "promise", "violation") == []


def test_results_made_in_a_window_are_tainted(project: Project) -> None:
    """What a commit inside the window brought is listed."""
    project.looser()
    project.commit("Loosen")
    synthetic.measured(project.root, effect=0.07)
    project.commit("Measure")
    project.stricter()
    project.commit("Revert")
    text = said(of(project.audit(()), "windows", "violation"))
    assert "are tainted" in text
    assert f"result: {REPORTS}/verdicts.json" in text


def test_an_attempt_under_a_promise_that_was_never_committed_is_a_violation(project: Project) -> None:
    """Edit, run, revert without a commit: the attempt names the promise it was made under."""
    project.looser()
    synthetic.measured(project.root, effect=0.07)
    project.stricter()
    project.git("checkout", "--", "reports")
    project.commit("Log")
    text = said(of(project.audit(()), "windows", "violation"))
    assert "under a promise that was never registered" in text
    assert "attempts/" in text


def test_a_comment_is_no_window(project: Project) -> None:
    """What means the same has the same digest."""
    file = f"{STUDY}/protocol.toml"
    project.write(file, "# A comment.\r\n" + project.read(file).replace("\n", "\r\n"))
    project.commit("Comment")
    report = project.audit(())
    assert of(report, "windows", "violation") == of(report, "promise", "violation") == []


def test_a_protocol_that_did_not_parse_for_one_commit_is_a_note(project: Project) -> None:
    """A slip that the next commit mends is told, and taints nothing."""
    file = f"{STUDY}/protocol.toml"
    text = project.read(file)
    project.write(file, text + "\n[[[")
    broken = project.commit("A slip")
    project.write(file, text)
    project.commit("Mend")
    report = project.audit(())
    assert of(report, "windows", "violation") == []
    assert broken in of(report, "windows", "note")[0].commits


def test_a_gate_that_was_patched_and_reverted_is_unverified(project: Project) -> None:
    """The window names the gate file, though it is the registered one again."""
    file = f"{STUDY}/test_h1.py"
    project.edit(file, "assert verdict.supported", "assert True or verdict.supported")
    patched = project.commit("Patch")
    project.edit(file, "assert True or verdict.supported", "assert verdict.supported")
    project.commit("Revert")
    report = project.audit(())
    assert report.exit_code == 2
    (window,) = of(report, "windows", "unverified")
    assert file in window.details
    assert patched in window.commits


def test_a_conftest_that_came_and_went_is_unverified(project: Project) -> None:
    """A conftest above the study may override its fixtures, so it is walked as well."""
    project.write("gates/conftest.py", "")
    project.commit("Override")
    project.path("gates/conftest.py").unlink()
    project.commit("Revert")
    assert "gates/conftest.py" in said(of(project.audit(()), "windows", "unverified"))


def test_an_edit_on_a_side_branch_is_a_window(project: Project) -> None:
    """The whole graph is walked, not only the first parents."""
    project.git("switch", "--quiet", "--create", "side")
    project.looser()
    began = project.commit("Loosen")
    project.stricter()
    project.commit("Revert")
    project.git("switch", "--quiet", "main")
    project.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert began in of(project.audit(()), "windows", "violation")[0].commits


def test_an_edit_inside_a_merge_is_a_window(project: Project) -> None:
    """A merge that edits the promise itself is no way around the walk."""
    project.git("switch", "--quiet", "--create", "side")
    project.write("notes.txt", "x")
    project.commit("Notes")
    project.git("switch", "--quiet", "main")
    project.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    project.looser()
    merge = project.commit("Merge")
    project.stricter()
    project.commit("Revert")
    assert merge in of(project.audit(()), "windows", "violation")[0].commits


def test_a_link_in_the_place_of_the_protocol_is_a_window(project: Project) -> None:
    """A symbolic link is never followed, so it promises nothing."""
    file = project.path(f"{STUDY}/protocol.toml")
    text = file.read_bytes()
    file.unlink()
    file.symlink_to("/etc/hostname")
    linked = project.commit("Link")
    file.unlink()
    file.write_bytes(text)
    project.commit("File")
    windows = of(project.audit(()), "windows", "violation", "note")
    assert linked in windows[0].commits
    assert "symlink" in said(windows)


# -- the package's own source ----------------------------------------------------------------------------


@pytest.fixture
def with_source(frozen: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in whose repository the package's source lies as well, as registered."""
    code = json.loads(frozen.read(f"{STUDY}/registration.json"))["components"]["code"]
    for name in code:
        frozen.write(f"src/{name}", PACKAGE.joinpath(*name.split("/")[1:]).read_bytes())
    frozen.git("add", "--all")
    frozen.git("commit", "--quiet", "--amend", "--no-edit")
    monkeypatch.setattr("prereg.audit.windows.PACKAGE", frozen.path("src/prereg"))
    return frozen


def test_source_that_changed_without_results_is_a_note(with_source: Project) -> None:
    """A package goes on being written; what counts is the commit that brings results."""
    synthetic.measured(with_source.root)
    with_source.commit("Measure")
    assert "analysis source is the registered one" in said(of(with_source.audit(()), "windows", "verified"))
    with_source.write("src/prereg/study/frames.py", "# another\n")
    with_source.commit("Rewrite")
    report = with_source.audit(())
    assert "the analysis source was another one at 1 commits" in said(of(report, "windows", "note"))
    assert of(report, "windows", "unverified") == []


def test_results_that_came_with_other_source_are_unverified(with_source: Project) -> None:
    """Patch, run, commit, revert: the commit that brought the results held other source, and names the file."""
    file = "src/prereg/study/frames.py"
    text = with_source.read(file)
    with_source.write(file, text + "# patched\n")
    synthetic.measured(with_source.root)
    patched = with_source.commit("Measure")
    with_source.write(file, text)
    with_source.commit("Revert")
    (window,) = of(with_source.audit(()), "windows", "unverified")
    assert "prereg/study/frames.py" in window.details
    assert f"result: {REPORTS}/verdicts.json" in window.details
    assert window.commits == (patched,)

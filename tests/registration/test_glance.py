"""What a glance at git tells each run, before it answers: a history that can't vouch is never called registered."""

from __future__ import annotations

import shutil
from pathlib import Path

from prereg.protocol import read_protocol
from prereg.registration.attempts import AttemptLog
from prereg.registration.standing import Standing, standing_of
from tests.synthetic import commit, git, measured, registered_project


def standing(root: Path) -> Standing:
    folder = root / "gates" / "sample"
    return standing_of(folder, read_protocol(folder), root)[0]


def test_a_squash_hides_which_came_first(tmp_path: Path) -> None:
    """Registration and results in one commit: unverified, with the reason."""
    registered_project(tmp_path)
    git(tmp_path, "reset", "--soft", git(tmp_path, "rev-list", "--max-parents=0", "HEAD"))
    commit(tmp_path, "All at once")
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert "a squash hides which came first" in found.reasons[0]


def test_an_attempt_that_was_taken_away_is_missed(tmp_path: Path) -> None:
    """Removing the newest attempt leaves the chain whole; the history tells, and names commit and remedy."""
    folder = registered_project(tmp_path, effect=0.03)
    shutil.rmtree(folder / "attempts")
    AttemptLog(folder / "attempts").record(
        study="sample",
        model="pythia-tiny",
        registration=standing(tmp_path).root,
        protocol="f" * 64,
        results={"H1": ("d" * 64, "supported")},
    )
    removed = commit(tmp_path, "Only what worked")
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert f"was removed or changed in commit {removed[:12]}" in found.reasons[0]
    assert found.remedy is not None
    assert found.remedy.startswith(f"git checkout {removed[:12]}^ -- ")


def test_an_attempt_that_was_put_back_is_not_missed(tmp_path: Path) -> None:
    """What is here as it was is no loss."""
    folder = registered_project(tmp_path)
    shutil.rmtree(folder / "attempts")
    commit(tmp_path, "By mistake")
    git(tmp_path, "checkout", "HEAD^", "--", "gates/sample/attempts")
    commit(tmp_path, "Put it back")
    assert standing(tmp_path).status == "registered"


def test_branches_that_both_add_attempts_merge_into_a_registered_study(tmp_path: Path) -> None:
    """A merge that keeps both sides' attempts takes nothing away."""
    registered_project(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "side", "HEAD^")
    measured(tmp_path, effect=0.4)
    commit(tmp_path, "Measure on the side")
    git(tmp_path, "checkout", "--quiet", "main")
    git(tmp_path, "merge", "--quiet", "--no-edit", "-X", "ours", "side")
    assert len(list((tmp_path / "gates" / "sample" / "attempts").iterdir())) == 2
    assert standing(tmp_path).status == "registered"


def test_a_merge_that_drops_a_branchs_attempts_is_seen(tmp_path: Path) -> None:
    """`git merge -s ours` throws the other side's attempts away without a deletion of its own."""
    registered_project(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "side", "HEAD^")
    measured(tmp_path, effect=0.03)
    commit(tmp_path, "Measure on the side")
    git(tmp_path, "checkout", "--quiet", "main")
    git(tmp_path, "merge", "--quiet", "--no-edit", "-s", "ours", "side")
    found = standing(tmp_path)
    assert found.status == "unverified"
    assert "was removed or changed" in found.reasons[0]


def test_an_attempt_under_a_registration_that_is_gone_is_seen(tmp_path: Path) -> None:
    """The log names a root that no link has: an amendment was taken away, be there a history or not."""
    folder = registered_project(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    (attempt,) = (folder / "attempts").iterdir()
    log = AttemptLog(folder / "attempts")
    log.record(
        study="sample", model="pythia-tiny", registration="e" * 64, protocol="f" * 64,
        results={"H1": ("d" * 64, "refuted")},
    )  # fmt: skip
    found = standing(tmp_path)
    assert attempt.is_file()
    assert found.status == "unverified"
    assert "names a registration that is not here: eeee" in found.reasons[0]


def test_a_protocol_that_is_a_link_is_not_the_registered_one(tmp_path: Path) -> None:
    """What a link leads to can change without a trace in the study's folder."""
    folder = registered_project(tmp_path)
    (folder / "protocol.toml").rename(tmp_path / "real.toml")
    (folder / "protocol.toml").symlink_to("../../real.toml")
    commit(tmp_path, "Tidy up")
    found = standing(tmp_path)
    assert (found.status, found.reasons[0][:21]) == ("unverified", "protocol.toml is a li")


def test_a_signature_of_other_bytes_is_tampering(tmp_path: Path) -> None:
    """What lies beside the registration as its receipt must speak of it; none at all is no trouble."""
    folder = registered_project(tmp_path)
    (folder / "registration.json.ots").write_bytes(b"no receipt at all")
    commit(tmp_path, "Attach")
    found = standing(tmp_path)
    assert found.status == "tampered"
    assert found.reasons[0].startswith("opentimestamps beside registration.json: ")

"""Signed commits and tags, with real keys: what is good, what is bad, and what can't be told."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from prereg.errors import RegistrationError
from prereg.registration import tools
from prereg.registration.signatures import commit_witness, tag_witnesses
from prereg.registration.signed_objects import read_tag
from tests.registration.keys import (
    ADA,
    WHEN,
    Machine,
    SigningRepo,
    call,
    needs_git,
    needs_gpg,
    needs_ssh,
)


@needs_git
def test_an_unsigned_commit_has_no_witness(repo: SigningRepo) -> None:
    """No signature is no error and no fact."""
    commit = repo.commit()
    assert commit_witness(repo.root, commit, None) is None
    assert tag_witnesses(repo.root, commit, None) == ()


@needs_git
@needs_gpg
def test_a_commit_signed_with_a_key_of_the_readers_keyring_is_good(repo: SigningRepo) -> None:
    """A GPG signature by a key in the keyring is good, names the user and agrees with git."""
    commit = repo.signed_by_gpg()
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert (found.kind, found.state, found.by) == ("commit", "good", ADA)
    assert found.when is not None
    assert found.when.tzinfo is not None
    assert repo.verifies(commit)


@needs_git
@needs_gpg
def test_a_gpg_key_that_the_reader_lacks_is_unknown(
    repo: SigningRepo, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key nothing can be said; the remedy fetches it."""
    commit = repo.signed_by_gpg()
    monkeypatch.setenv("GNUPGHOME", str(machine.empty))
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert found.state == "unknown"
    assert found.remedy is not None
    assert found.remedy.startswith("gpg --recv-keys ")
    assert "?" not in found.remedy


@needs_git
@needs_gpg
def test_a_changed_commit_under_a_gpg_signature_is_bad(repo: SigningRepo) -> None:
    """Other bytes under a known key's signature contradict it."""
    changed = repo.changed(repo.signed_by_gpg())
    found = commit_witness(repo.root, changed, None)
    assert found is not None
    assert found.state == "bad"
    assert not repo.verifies(changed)


@needs_git
@needs_gpg
@pytest.mark.parametrize("how", ["--sign", "--clear-sign"])
def test_a_message_signed_elsewhere_vouches_for_no_commit(repo: SigningRepo, how: str) -> None:
    """A signature that brings its own text is right about that text, and says nothing of the commit."""
    data = call("git", "cat-file", "commit", repo.commit(), cwd=repo.root)
    message = call("gpg", "--batch", "--armor", how, stdin=b"I never saw that commit\n")
    for armored in (message, message.replace(b"PGP MESSAGE", b"PGP SIGNATURE")):
        header = b"\ngpgsig " + armored.strip().replace(b"\n", b"\n ")
        found = commit_witness(
            repo.root, repo.written("commit", data.replace(b"\n\n", header + b"\n\n", 1)), None
        )
        assert found is not None
        assert found.state == "unknown"


@needs_git
@needs_gpg
def test_an_expired_gpg_key_is_no_good_witness(repo: SigningRepo) -> None:
    """A key that has expired may sign anything today with yesterday's date."""
    then = ["--batch", "--quiet", "--passphrase", "", "--faked-system-time", "20200101T000000"]
    call("gpg", *then, "--quick-gen-key", "Old <old@example.org>", "ed25519", "sign", "1d")
    payload = call("git", "cat-file", "commit", repo.commit(), cwd=repo.root)
    armored = call("gpg", *then, "--local-user", "old@example.org", "--armor", "--detach-sign", stdin=payload)
    head, _, message = payload.partition(b"\n\n")
    header = b"\ngpgsig " + armored.strip().replace(b"\n", b"\n ")
    found = commit_witness(repo.root, repo.written("commit", head + header + b"\n\n" + message), None)
    assert found is not None
    assert (found.state, found.by) == ("unknown", "Old <old@example.org>")
    assert "expired" in found.detail


@needs_git
@needs_ssh
def test_a_commit_signed_with_a_key_of_allowed_signers_is_good(
    repo: SigningRepo, machine: Machine, allowed: Path
) -> None:
    """An SSH signature by a key that the study names is good, at the committer's date, and git agrees."""
    commit = repo.signed_by_ssh(machine.key("ada"))
    found = commit_witness(repo.root, commit, allowed)
    assert found is not None
    assert (found.state, found.by, found.when) == ("good", "ada@example.org", WHEN)
    assert "the study's allowed_signers" in found.detail
    assert repo.verifies(commit, "-c", f"gpg.ssh.allowedSignersFile={allowed}")


@needs_git
@needs_ssh
def test_an_ssh_key_that_nobody_names_is_unknown(repo: SigningRepo, machine: Machine, allowed: Path) -> None:
    """A right signature by a stranger shows the key's fingerprint, with a list and without one."""
    key = machine.key("stranger")
    commit = repo.signed_by_ssh(key)
    fingerprint = call("ssh-keygen", "-l", "-f", key).decode().split()[1]
    for signers in (None, allowed, allowed.with_name("gone")):
        found = commit_witness(repo.root, commit, signers)
        assert found is not None
        assert found.state == "unknown"
        assert fingerprint in found.detail


@needs_git
@needs_ssh
def test_the_readers_own_signers_count_but_not_the_repositorys(
    repo: SigningRepo, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What .git/config calls allowed signers is not the reader's word; the global configuration is."""
    commit = repo.signed_by_ssh(machine.key("ada"))
    mine = tmp_path / "mine"
    mine.write_text(machine.line("ada@home", "ada"))
    repo.git("config", "gpg.ssh.allowedSignersFile", mine)
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert found.state == "unknown"
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f'[gpg "ssh"]\n\tallowedSignersFile = {mine}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert (found.state, found.by) == ("good", "ada@home")
    assert "the reader's" in found.detail


@needs_git
@needs_ssh
def test_a_changed_commit_under_an_ssh_signature_is_bad(
    repo: SigningRepo, machine: Machine, allowed: Path
) -> None:
    """Whether the key is known or not, other bytes contradict its signature."""
    for key in ("ada", "stranger"):
        changed = repo.changed(repo.signed_by_ssh(machine.key(key)))
        found = commit_witness(repo.root, changed, allowed)
        assert found is not None
        assert found.state == "bad"


@needs_git
@needs_ssh
def test_a_key_is_judged_at_the_commits_date(repo: SigningRepo, machine: Machine, allowed: Path) -> None:
    """A key that was valid then is good though it has expired since; one that came later is not."""
    commit = repo.signed_by_ssh(machine.key("ada"))
    for options, state in (('valid-before="20260302"', "good"), ('valid-after="20260302"', "unknown")):
        allowed.write_text(machine.line("ada@example.org", "ada", options))
        found = commit_witness(repo.root, commit, allowed)
        assert found is not None
        assert found.state == state


@needs_git
@needs_ssh
def test_commits_of_a_sha256_repository(machine: Machine, allowed: Path, tmp_path: Path) -> None:
    """The signature lies in another header there."""
    repo = SigningRepo(tmp_path / "r", "--object-format=sha256")
    commit = repo.signed_by_ssh(machine.key("ada"))
    found = commit_witness(repo.root, commit, allowed)
    assert len(commit) == 64
    assert found is not None
    assert found.state == "good"


@needs_git
@pytest.mark.parametrize("armor", [b"-----BEGIN SIGNED MESSAGE-----", b"-----BEGIN NONSENSE-----"])
def test_signatures_of_other_kinds_are_unknown(repo: SigningRepo, armor: bytes) -> None:
    """An X.509 signature, or one of a kind that git doesn't know, is not decided here."""
    data = call("git", "cat-file", "commit", repo.commit(), cwd=repo.root)
    commit = repo.written("commit", data.replace(b"\n\n", b"\ngpgsig " + armor + b"\n abc\n\n", 1))
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert found.state == "unknown"


@needs_git
@needs_ssh
@needs_gpg
def test_the_repositorys_configuration_runs_nothing(
    repo: SigningRepo, machine: Machine, allowed: Path, tmp_path: Path
) -> None:
    """Programs named in .git/config aren't run, and don't change the answer."""
    ssh, gpg = repo.signed_by_ssh(machine.key("stranger")), repo.changed(repo.signed_by_gpg())
    repo.git("tag", "-a", "-m", "x", "t", ssh)
    trace, evil = tmp_path / "trace", tmp_path / "evil"
    evil.write_text(
        f'#!/bin/sh\necho ran >> {trace}\necho "[GNUPG:] GOODSIG AA Eve"\n'
        'echo "Good \\"git\\" signature for eve with ED25519 key SHA256:x"\n'
    )
    evil.chmod(0o700)
    for name in (
        "gpg.program",
        "gpg.openpgp.program",
        "gpg.ssh.program",
        "gpg.x509.program",
        "core.fsmonitor",
    ):
        repo.git("config", name, evil)
    repo.git("config", "core.pager", evil)
    repo.git("config", "gpg.ssh.defaultKeyCommand", evil)
    found = [commit_witness(repo.root, commit, allowed) for commit in (ssh, gpg)]
    tag_witnesses(repo.root, ssh, allowed)
    assert [witness.state for witness in found if witness] == ["unknown", "bad"]
    assert not trace.exists()


@needs_git
@needs_ssh
def test_the_environment_does_not_lead_elsewhere(
    repo: SigningRepo, machine: Machine, allowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that point git to another repository, and a local time, don't change the answer."""
    commit = repo.signed_by_ssh(machine.key("ada"))
    allowed.write_text(
        machine.line("ada@example.org", "ada", 'valid-before="202603011300Z",valid-after="202603011100Z"')
    )
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    found = commit_witness(repo.root, commit, allowed)
    assert found is not None
    assert found.state == "good"


@needs_git
@pytest.mark.parametrize("name", ["HEAD", "--help", "main", "a" * 39, "A" * 40, "a" * 40 + "\n"])
def test_only_a_full_id_is_a_commit(repo: SigningRepo, name: str) -> None:
    """A name that git might take for an option, or that may move, is refused."""
    for look in (commit_witness, tag_witnesses):
        with pytest.raises(RegistrationError, match="no full commit id"):
            look(repo.root, name, None)


@needs_git
@needs_ssh
def test_an_object_whose_bytes_are_not_its_ids_is_never_good(
    repo: SigningRepo, machine: Machine, allowed: Path
) -> None:
    """Git reads a loose object without comparing it with its name; a signed one in another's place is seen."""
    signed = repo.signed_by_ssh(machine.key("ada"))
    unsigned = repo.written(
        "commit", call("git", "cat-file", "commit", repo.commit(), cwd=repo.root) + b"more"
    )
    place = {c: repo.root / ".git" / "objects" / c[:2] / c[2:] for c in (signed, unsigned)}
    place[unsigned].chmod(0o600)
    place[unsigned].write_bytes(place[signed].read_bytes())
    found = commit_witness(repo.root, unsigned, allowed)
    assert found is not None
    assert found.state == "unknown"


@needs_git
def test_a_commit_that_is_not_here_is_unknown(repo: SigningRepo) -> None:
    """An object that the clone lacks can't be decided, and is no crash."""
    found = commit_witness(repo.root, "0" * 39 + "1", None)
    assert found is not None
    assert found.state == "unknown"


@needs_git
@needs_ssh
@needs_gpg
def test_signed_tags_of_a_commit(repo: SigningRepo, machine: Machine, allowed: Path) -> None:
    """Signed tags on the commit are witnesses; light ones, unsigned ones and other commits' are none."""
    commit = repo.commit()
    ssh = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={machine.key('ada')}")
    quoted = "quotes\n-----BEGIN PGP SIGNATURE-----\nnothing"
    repo.git(*ssh, "tag", "-s", "-m", quoted, "by-ssh")
    repo.git("tag", "-s", "-m", "m", "by-gpg")
    repo.git("tag", "light")
    repo.git("tag", "-a", "-m", "m", "unsigned")
    repo.git("tag", "-s", "-m", "m", "of-tag", "by-gpg")
    repo.git("commit", "-q", "--allow-empty", "-m", "next")
    repo.git("tag", "-s", "-m", "m", "later")
    found = tag_witnesses(repo.root, commit, allowed)
    assert [(w.kind, w.state, w.by) for w in found] == [
        ("tag", "good", ADA),
        ("tag", "good", "ada@example.org"),
    ]
    assert [w.detail.split(":")[0] for w in found] == ["tag by-gpg", "tag by-ssh"]
    assert repo.verifies("by-gpg", what="verify-tag")


@needs_git
@needs_gpg
def test_a_tag_of_a_tag_or_of_another_commit_is_no_witness(repo: SigningRepo) -> None:
    """Only a tag that names the commit itself counts, whatever this version of git lists."""
    commit = repo.commit()
    repo.git("tag", "-s", "-m", "m", "first")
    repo.git("tag", "-s", "-m", "m", "nested", "first")
    first, nested = repo.git("rev-parse", "first"), repo.git("rev-parse", "nested")
    assert read_tag(repo.root, first, commit) is not None
    assert read_tag(repo.root, first, "0" * 40) is None
    assert read_tag(repo.root, nested, commit) is None


@needs_git
@needs_gpg
def test_a_renamed_or_changed_tag_is_told(repo: SigningRepo) -> None:
    """A tag under another name than it was signed under says so; one with other words is bad."""
    commit = repo.commit()
    repo.git("tag", "-s", "-m", "words", "frozen")
    tag = repo.git("rev-parse", "frozen")
    repo.git("update-ref", "refs/tags/renamed", tag)
    changed = call("git", "cat-file", "tag", tag, cwd=repo.root).replace(b"words", b"other")
    repo.git("update-ref", "refs/tags/twisted", repo.written("tag", changed))
    frozen, renamed, twisted = tag_witnesses(repo.root, commit, None)
    assert "renamed" not in frozen.detail
    assert "calls itself 'frozen': the tag was renamed" in renamed.detail
    assert (frozen.state, renamed.state, twisted.state) == ("good", "good", "bad")


@needs_git
@needs_gpg
@pytest.mark.skipif(os.name != "posix", reason="the fake program is a shell script")
def test_a_tool_that_hangs_is_ended_with_its_children(
    repo: SigningRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that doesn't answer is ended, and so is a child of it that holds its output open."""
    commit = repo.signed_by_gpg()
    folder = tmp_path / "bin"
    folder.mkdir()
    child = tmp_path / "child"
    (folder / "gpg").write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {child}\nsleep 60\n")
    (folder / "gpg").chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(tools, "SECONDS", 0.5)
    found = commit_witness(repo.root, commit, None)
    assert found is not None
    assert found.state == "unknown"
    assert "did not answer" in found.detail
    assert ended(int(child.read_text()))


def ended(process: int) -> bool:
    """Wait a little for a process to be gone, or a zombie that nobody has asked after."""
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{process}/stat")
        if status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False

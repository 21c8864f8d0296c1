"""A model hub on this machine: the few routes of the real one that a fetch needs, and its faults."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class HubStandIn:
    """Repositories by name: branches to commits, commits to files."""

    files: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    heads: dict[tuple[str, str], str] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    cut_after: dict[str, int] = field(default_factory=dict)
    swapped: dict[str, bytes] = field(default_factory=dict)
    endpoint: str = ""

    def publish(self, repo: str, folder: Path, branch: str = "main", extra: bytes = b"") -> str:
        """Add a folder as one commit of `repo`, move the branch there, and return the commit."""
        content = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
        hasher = hashlib.sha1(repr(sorted(content)).encode() + extra, usedforsecurity=False)
        for name in sorted(content):
            hasher.update(content[name])
        commit = hasher.hexdigest()
        self.files[repo, commit] = content
        self.heads[repo, branch] = commit
        return commit

    def ranges_of(self, name: str) -> list[str | None]:
        """Range headers of every request that read a file's bytes."""
        return [r for method, path, r in self.requests if method == "GET" and path.endswith(f"/{name}")]


def blob_id(content: bytes) -> str:
    """Git's name for these bytes."""
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def sibling(name: str, content: bytes) -> dict[str, object]:
    """List one file as the hub does: large ones carry a sha256."""
    listed: dict[str, object] = {
        "rfilename": name,
        "size": len(content),
        "blobId": blob_id(content),
    }
    if name.endswith((".safetensors", ".bin")):
        listed["lfs"] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "pointerSize": 130,
        }
    return listed


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubStandIn

    def log_message(self, *args: object) -> None:
        """Keep quiet."""

    def do_HEAD(self) -> None:
        """Answer like a GET without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Serve a repository's listing or one of its files."""
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        if path.startswith("/api/models/"):
            repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            self._listing(repo, revision or "main")
        else:
            repo, _, rest = path.removeprefix("/").partition("/resolve/")
            commit, _, name = rest.partition("/")
            self._file(repo, commit, name)

    def _listing(self, repo: str, revision: str) -> None:
        if not any(known == repo for known, _ in self.hub.files):
            self._missing("RepoNotFound")
            return
        commit = self.hub.heads.get((repo, revision), revision)
        content = self.hub.files.get((repo, commit))
        if content is None:
            self._missing("RevisionNotFound")
            return
        body = {
            "id": repo,
            "sha": commit,
            "siblings": [sibling(name, data) for name, data in content.items()],
        }
        self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, commit: str, name: str) -> None:
        content = self.hub.files.get((repo, commit), {}).get(name)
        if content is None:
            self._missing("EntryNotFound")
            return
        content = self.hub.swapped.get(name, content)
        headers = {"ETag": f'"{blob_id(content)}"', "X-Repo-Commit": commit}
        asked = self.headers.get("Range")
        if asked is None:
            self._send(200, content, headers, name)
            return
        start = int(asked.removeprefix("bytes=").partition("-")[0])
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(206, content[start:], headers, name)

    def _missing(self, code: str) -> None:
        self._send(404, b"{}", {"X-Error-Code": code})

    def _send(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        limit = self.hub.cut_after.pop(name, None)
        self.wfile.write(body if limit is None else body[:limit])
        if limit is not None:
            self.close_connection = True


def start_hub() -> tuple[HubStandIn, ThreadingHTTPServer, threading.Thread]:
    """Serve an empty hub on a free port of this machine."""
    hub = HubStandIn()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    return hub, server, thread

"""Git as a witness: what stood in each commit, which commit came first, and what keeps this from being seen."""

from __future__ import annotations

from prereg.registration.history.ancestry import Window
from prereg.registration.history.commits import Commit
from prereg.registration.history.obstacles import Obstacle
from prereg.registration.history.quick import Quick
from prereg.registration.history.repository import Repository
from prereg.registration.history.trees import is_file
from prereg.registration.history.worktree import Change

__all__ = ["Change", "Commit", "Obstacle", "Quick", "Repository", "Window", "is_file"]

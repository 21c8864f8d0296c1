"""Install a wheel in clean environments, one for each Python that is here, and use it: `make package` runs this.

Each environment gets the wheel and its dependencies from the package index, no extras. In it run: the help,
`prereg.inference`, a new study, and an audit of a clone of this repository, whose exit code says whether the clone's
study is verified by this code; here it only must not find a violation.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PYTHONS = ("python3.11", "python3.12", "python3.13")
ALLOWED = {"audit": (0, 2)}

INFERENCE = """
import sys
import numpy, prereg.inference
from importlib.metadata import version
assert "torch" not in sys.modules
print(sys.version.split()[0], "prereg-gates", version("prereg-gates"), "numpy", numpy.__version__)
"""


def main() -> int:
    """Return 0 if every Python that was found could use the wheel."""
    wheel = Path(sys.argv[1]).resolve()
    found = [path for name in PYTHONS if (path := _works(name)) is not None]
    if not found:
        sys.stdout.write(f"none of {', '.join(PYTHONS)} is here\n")
        return 1
    return max([_try(python, wheel) for python in found])


def _works(name: str) -> str | None:
    # A version manager's shim is on the path also for a Python that it then refuses to start.
    path = shutil.which(name)
    if path is None:
        return None
    return path if subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0 else None


def _try(python: str, wheel: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, "-m", "venv", str(place / "env")], check=True)
        binaries = place / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([str(binaries / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(place / "clone")], check=True)
        prereg = str(binaries / "prereg")
        for name, command, cwd in (
            ("help", [prereg, "--help"], place),
            ("inference", [str(binaries / "python"), "-c", INFERENCE], place),
            ("new", [prereg, "new", "my-study"], place),
            ("audit", [prereg, "audit", "gates/delta_stream"], place / "clone"),
        ):
            done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
            sys.stdout.write(f"{Path(python).name} {name}: exit {done.returncode}\n")
            if done.returncode not in ALLOWED.get(name, (0,)) or "Traceback" in done.stderr:
                sys.stdout.write(done.stdout[-3000:] + done.stderr[-3000:])
                return 1
            if name == "inference":
                sys.stdout.write(done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

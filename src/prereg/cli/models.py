"""`prereg models`: which models there are, and fetching one ahead of time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prereg.cli.completion import aliases
from prereg.cli.options import CacheDir, Json, Offline, cache_folder, project_root, run_options
from prereg.cli.told import result, show, size, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from prereg.activations.models import ModelRow

__all__ = ["models"]


def models(
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            "--fetch",
            metavar="NAME",
            help="have this model here: an alias, a hub id or a folder; repeatable",
            autocompletion=aliases,
            show_default=False,
        ),
    ] = None,
    cache_dir: CacheDir = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """List the models that can be asked, or fetch one ahead of time.

    Other commands fetch what they need by themselves; --fetch is for doing it while there is a network. A
    fetch takes as long as the download (some 100 MB for smollm2-135m, 800 MB for pythia-410m), is checked
    against its pinned digest, and is resumed by running the same command again. Models are kept in the cache
    folder under models/. Any hub id or folder with safetensors can be asked too, without being listed.

    \b
    Examples:
      prereg models
      prereg models --fetch smollm2-135m
      prereg models --fetch EleutherAI/pythia-70m-deduped
      prereg models --json
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        cache, root = cache_folder(cache_dir), project_root(Path.cwd())
        if fetch:
            fetched = [_fetch(name, root, cache, offline) for name in fetch]
            if json:
                result({"fetched": fetched})
            else:
                for model in fetched:
                    show(
                        f"{model['alias']} is here: {model['folder']}\n  {model['source']}, {model['digest']}"
                    )
            return
        from prereg.activations.models import describe, load_registry

        rows = describe(load_registry(), cache, root)
        if json:
            result({"cache": str(cache), "models": [asdict(row) for row in rows]})
        else:
            show(_table(rows))
            show(f"\nCache folder: {cache}. A hub id (org/name) or a folder can be asked too.")


def _fetch(name: str, root: Path, cache: Path, offline: bool) -> dict[str, Any]:
    from prereg.activations.models import ensure, load_registry, resolve

    registry = load_registry()
    options = run_options(root, cache_dir=cache, offline=offline)
    entry = resolve(name, registry=registry, root=root)
    local = ensure(
        entry, cache, offline=offline, progress=options.progress(), registry=registry, root=root
    )  # fmt: skip
    return {"folder": str(local.folder), **local.identity.as_dict()}


def _table(rows: list[ModelRow]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("model", no_wrap=True, style="bold")
    table.add_column("here", justify="right", no_wrap=True)
    table.add_column("licence", max_width=18)
    table.add_column("source", overflow="fold")
    for row in rows:
        here = {"present": size(row.size), "partial": "partly"}.get(row.state, "-")
        # A commit's forty digits are for machines (--json), not for a table.
        table.add_row(row.alias, here, row.licence or "", row.source.split("@")[0])
    return table

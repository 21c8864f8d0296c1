"""`prereg cache`: what lies in the cache folder, whether it is whole, and making room."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prereg.cli.options import CacheDir, Json, cache_folder, project_root
from prereg.cli.told import ERROR, result, show, size, told
from prereg.errors import PreregError, StorageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from prereg.activations.models import ModelRow
    from prereg.activations.store import StoreInfo

__all__ = ["cache_app"]

cache_app = typer.Typer(rich_markup_mode=None)
SHOWN = 12


@cache_app.callback(invoke_without_command=True)
def _cache(context: typer.Context, cache_dir: CacheDir = None, json: Json = False) -> None:
    """Show, check and clear the cache of models and captured activations.

    Everything in the cache can be made again: models are fetched, activations captured. Evidence, tables and
    verdicts are not in it: these lie under reports/. Without a command, `list`.

    \b
    Examples:
      prereg cache
      prereg cache verify
      prereg cache remove 3f9c2a71bd08
      prereg cache prune --yes
    """  # noqa: D301 (backslash-b keeps lines as they are)
    if context.invoked_subcommand is None:
        list_(cache_dir, json)
        return
    # Given before the command's name they mean what they mean after it.
    given = {"cache_dir": cache_dir, "json": json or None}
    context.default_map = {
        context.invoked_subcommand: {name: value for name, value in given.items() if value is not None}
    }


@cache_app.command("list", short_help="List stores and models.")
def list_(cache_dir: CacheDir = None, json: Json = False) -> None:
    """List stores of activations and models, with their sizes. Nothing is hashed."""
    with told(json):
        cache = cache_folder(cache_dir)
        stores, models = _stores(cache), _models(cache)
        leftovers = _leftovers(cache)
        total = _bytes_below(cache)
        if json:
            result(
                {
                    "cache": str(cache),
                    "bytes": total,
                    "stores": [_store_record(store) for store in stores],
                    "models": [
                        {"alias": m.alias, "state": m.state, "bytes": m.size, "source": m.source}
                        for m in models
                    ],
                    "checkpoints": [str(folder) for folder in leftovers],
                }
            )
            return
        show(f"{cache}: {size(total)}")
        show(_listing(stores, models))
        if leftovers:
            show(f"{len(leftovers)} interrupted measurement(s) keep what they finished, to resume from.")


@cache_app.command(short_help="Read everything again and compare.")
def verify(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="stores to check [default: all]", show_default=False),
    ] = None,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Read every byte of finished stores and of fetched models again, and compare with what was written.

    Takes as long as reading the files. A damaged store is repaired by running its capture again, which redoes only the
    damaged blocks.

    \b
    Exit codes:
      0  all that could be checked is whole
      2  something is damaged, or an error
    """  # noqa: D301 (backslash-b keeps lines as they are)
    with told(json):
        cache = cache_folder(cache_dir)
        stores = _stores(cache) if not keys else [_one(cache, key) for key in keys]
        checked = [_check_store(store) for store in stores]
        if not keys:
            checked += [_check_model(row, cache) for row in _models(cache)]
        bad = [item for item in checked if item["trouble"] is not None]
        if json:
            result({"checked": checked, "damaged": len(bad)})
        else:
            for item in checked:
                state = "damaged" if item["trouble"] else "whole" if item["checked"] else "unfinished"
                show(f"{state}  {item['kind']} {item['name'][:64]}")
                if item["trouble"]:
                    show(f"  {item['trouble']}")
            show(f"{len(checked)} checked, {len(bad)} damaged")
        if bad:
            raise typer.Exit(ERROR)


@cache_app.command(short_help="Delete one store.")
def remove(
    key: Annotated[str, typer.Argument(help="a store's key, or enough of its beginning to be the only one")],
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Delete one store of activations. The next run that needs it captures it again."""
    with told(json):
        from prereg.activations.store import remove_store

        cache = cache_folder(cache_dir)
        store = _one(cache, key)
        remove_store(cache / "stores", store.key)
        if json:
            result({"removed": [store.key], "bytes": store.size_bytes})
        else:
            show(f"removed {store.key[:SHOWN]}, {size(store.size_bytes)}")


@cache_app.command(short_help="Delete what is unfinished or damaged.")
def prune(
    yes: Annotated[
        bool, typer.Option("--yes", help="really delete; without it, only say what would go")
    ] = False,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Delete unfinished and damaged stores, and what interrupted measurements left.

    Finished stores and models stay. What goes would have let an interrupted run resume: it starts over
    instead. Don't prune while a run is going on.
    """
    with told(json):
        from prereg.activations.store import remove_store

        cache = cache_folder(cache_dir)
        stores = [s for s in _stores(cache) if not s.complete or s.trouble is not None]
        folders = _leftovers(cache)
        freed = sum(s.size_bytes for s in stores) + sum(_bytes_below(f) for f in folders)
        if yes:
            for store in stores:
                remove_store(cache / "stores", store.key)
            for folder in folders:
                _delete(folder)
        names = [*(s.key for s in stores), *(str(f) for f in folders)]
        if json:
            result({"removed": names if yes else [], "would_remove": [] if yes else names, "bytes": freed})
            return
        for name in names:
            show(f"{'removed' if yes else 'would remove'} {name}")
        show(f"{size(freed)} {'freed' if yes else 'would be freed; add --yes to do it'}")


def _stores(cache: Path) -> list[StoreInfo]:
    from prereg.activations.store import list_stores

    return list(list_stores(cache / "stores"))


def _models(cache: Path) -> list[ModelRow]:
    from prereg.activations.models import describe, load_registry

    rows = describe(load_registry(), cache, project_root(Path.cwd()))
    return [row for row in rows if row.state != "absent"]


def _leftovers(cache: Path) -> list[Path]:
    from prereg.workers import refused_by_disk

    folder = cache / "checkpoints"
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise refused_by_disk(folder, error, "can't be read") from error


def _one(cache: Path, key: str) -> StoreInfo:
    found = [store for store in _stores(cache) if store.key.startswith(key)]
    if len(found) == 1 and key:
        return found[0]
    what = "no store's key begins" if not found else f"the keys of {len(found)} stores begin"
    raise StorageError(f"{what} with {key!r}", remedy="prereg cache list")


def _check_store(store: StoreInfo) -> dict[str, Any]:
    from prereg.activations.store import Store

    found: dict[str, Any] = {"kind": "store", "name": store.key, "checked": False, "trouble": store.trouble}
    if store.complete and store.trouble is None:
        found["checked"] = True
        try:
            Store.open(store.folder).verify()
        except PreregError as error:
            found["trouble"] = error.message
    return found


def _check_model(row: ModelRow, cache: Path) -> dict[str, Any]:
    from prereg.activations.models import ensure, load_registry, resolve

    found: dict[str, Any] = {"kind": "model", "name": row.alias, "checked": False, "trouble": None}
    if row.state == "present":
        found["checked"] = True
        root = project_root(Path.cwd())
        try:
            entry = resolve(row.alias, registry=load_registry(), root=root)
            ensure(entry, cache, offline=True, root=root).verify()
        except PreregError as error:
            found["trouble"] = error.message
    return found


def _bytes_below(folder: Path) -> int:
    from prereg.activations.models.progress import size_on_disk

    return size_on_disk(folder)


def _delete(folder: Path) -> None:
    from prereg.workers import refused_by_disk

    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise refused_by_disk(folder, error, "can't be removed") from error


def _store_record(store: StoreInfo) -> dict[str, Any]:
    return {
        "key": store.key,
        "complete": store.complete,
        "prompts": store.n_prompts,
        "bytes": store.size_bytes,
        "provenance": store.provenance,
        "trouble": store.trouble,
    }


def _listing(stores: list[StoreInfo], models: list[ModelRow]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("state", no_wrap=True)
    table.add_column("prompts", justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("of")
    for row in models:
        state = "whole" if row.state == "present" else "partial"
        table.add_row("model", row.alias, state, "", size(row.size), row.source.split("@")[0])
    for store in stores:
        state = "damaged" if store.trouble else "whole" if store.complete else "unfinished"
        of = ", ".join(store.provenance.get(k, "") for k in ("study", "arm") if store.provenance.get(k))
        prompts = "" if store.n_prompts is None else str(store.n_prompts)
        table.add_row("store", store.key[:SHOWN], state, prompts, size(store.size_bytes), of)
    return table

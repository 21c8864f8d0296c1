"""Every figure by name: what it is called, what it is drawn from, and who draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prereg.report.figures import bands, depth, gates, later, null_draws, orders, replication
from prereg.report.figures.tables import Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "FigureSpec", "Need"]


@dataclass(frozen=True, slots=True)
class Need:
    """A table, and the columns of it that a figure reads."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One figure.

    Parameters
    ----------
    name
        Of its files, without an ending.
    title, caption
        What it shows, in a few words and in a few sentences; the caption is also its description for a screen
        reader.
    scope
        ``study``: one figure over all models; ``model``: one for each.
    needs
        Tables without which it isn't drawn. A ``shared`` one lies beside the models' folders.
    draw
        Draws it: from all models' tables, or from one model's.
    shared
        Whether the tables it needs are the shared ones.
    """

    name: str
    title: str
    caption: str
    scope: Literal["study", "model"]
    needs: tuple[Need, ...]
    draw: Callable[[Tables], Figure]
    shared: bool = False

    def drawable(self, tables: Tables) -> bool:
        """Tell whether every table that it needs is there, and demand its columns.

        Raises
        ------
        ReportError
            If a table is there and lacks a column, or has no rows.
        """
        found = True
        for need in self.needs:
            here = (
                [tables.shared[need.table]]
                if self.shared and need.table in tables.shared
                else [table for _, table in tables.find(need.table)]
                if not self.shared
                else []
            )
            for table in here:
                table.need(need.columns)
            found = found and bool(here)
        return found


FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        "gates",
        "Every gate against its threshold",
        "Each hypothesis on its own scale: the promised side of the threshold is shaded, the interval of the contrast "
        "that binds is drawn with a marker at its estimate, and small rings mark the estimates of the other "
        "contrasts. The word at the right is the recorded verdict.",
        "study",
        (Need("verdicts.csv", gates.VERDICTS),),
        gates.draw,
    ),
    FigureSpec(
        "replication",
        "What the models say together",
        "The random-effects estimate of each contrast over all models, with its interval.",
        "study",
        (Need("replication.csv", replication.REPLICATION),),
        replication.draw,
        shared=True,
    ),
    FigureSpec(
        "r2_by_depth",
        "R2 by depth, trained and untrained",
        "Held-out R2 of the next update by depth, from its history, from the running sum, from both, and from a "
        "shuffled history; in the trained model and in its untrained twins. Below, the R2 of running sum and history "
        "together, split into what only the running sum, either, or only the history explains; above "
        "each bar its height and the history's own part.",
        "model",
        (Need("r2_by_update.csv", depth.R2_BY_UPDATE),),
        depth.draw,
    ),
    FigureSpec(
        "cross_band",
        "One kernel for all depths?",
        "Held-out R2 of a kernel fit on one depth band (row) and asked about another (column). Below zero, hatched, "
        "it is worse than the band's own mean.",
        "model",
        (Need("cross_band.csv", bands.CROSS_BAND),),
        bands.draw,
    ),
    FigureSpec(
        "orders",
        "What a further step of history adds",
        "Held-out R2 against the order of the history, alone and beside the running sum, and in untrained twins. "
        "The number below each disc is the gain over the order before.",
        "model",
        (Need("orders.csv", orders.ORDERS),),
        orders.draw,
    ),
    FigureSpec(
        "null_draws",
        "What fitting alone can do",
        "Held-out R2 of refits on shuffled histories beside the observed R2, on one scale and magnified.",
        "model",
        (Need("draws.csv", null_draws.DRAWS),),
        null_draws.draw,
    ),
    FigureSpec(
        "ssm_gain",
        "What a state adds, by depth",
        "Gain in held-out R2 of a state-space model over readouts of matched size, update by update.",
        "model",
        (Need("ssm_gain_by_update.csv", later.SSM_GAIN),),
        later.draw_ssm_gain,
    ),
    FigureSpec(
        "state_path",
        "How long a state remembers",
        "Energy that a source adds to an update, against the number of blocks between them.",
        "model",
        (Need("state_path.csv", later.STATE_PATH),),
        later.draw_state_path,
    ),
    FigureSpec(
        "causal_effects",
        "What is lost without a feature",
        "Loss in the answer's log-probability when a feature is taken out, with intervals, beside its controls.",
        "model",
        (Need("causal_effects.csv", later.CAUSAL_EFFECTS),),
        later.draw_causal_effects,
    ),
    FigureSpec(
        "dictionary_stability",
        "Do two seeds find the same features?",
        "Mean cosine of the matched directions of two seeds' dictionaries, by depth and kind, beside random ones.",
        "model",
        (Need("dictionary_stability.csv", later.DICTIONARY_STABILITY),),
        later.draw_stability,
    ),
)
"""All figures, in the order in which a reader meets them. One is drawn wherever its tables are."""

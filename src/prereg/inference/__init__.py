"""From numbers to verdicts, with numpy and a few special functions; no files, no models, no protocol.

The road is short. Rows are summed into independent units (`RatioTable.from_rows`). A claim is about a
*contrast*, `theta = sum_r w_r * sum_i N[i, r] / sum_i D[i, r]`. Its interval comes from the ideal bootstrap
where theta is one ratio of sums (`ideal_intervals`), else from a shared plan of resamples (`intervals`);
`headline_intervals` chooses. `decide_conjunction` compares the interval with the registered threshold.

>>> from prereg.inference import RatioTable, decide_conjunction, ideal_intervals
>>> labels = [f"subject {i % 12:02d}" for i in range(36)]
>>> gap = [0.2 + 0.01 * (i % 7) for i in range(36)]
>>> table = RatioTable.from_rows(labels, gap, [1.0] * 36)
>>> results = ideal_intervals(table, [1.0], level=0.95)
>>> decide_conjunction(results, threshold=0.1, direction="greater").outcome.value
'supported'

What stands on which source is written at each function. Departures from arch and scipy are listed in
`prereg.inference.intervals`.
"""

from __future__ import annotations

from prereg.inference.equivalence import (
    PairedTost,
    check_margin,
    equivalence_level,
    minimum_detectable_effect,
    tost_paired,
)
from prereg.inference.headline import headline_intervals, headline_intervals_many
from prereg.inference.ideal import (
    IdealDistribution,
    has_ideal,
    ideal_distribution,
    ideal_intervals,
)
from prereg.inference.intervals import intervals, intervals_many
from prereg.inference.multiplicity import (
    benjamini_hochberg,
    benjamini_yekutieli,
    hochberg,
    holm,
    step_down_maxt,
)
from prereg.inference.permutation import (
    Alternative,
    enumeration_p_value,
    monte_carlo_p_value,
    sign_flips,
)
from prereg.inference.plan import BootstrapPlan, ExplicitPlan, ResamplingPlan, plan_sums
from prereg.inference.ratios import RatioTable
from prereg.inference.records import ContrastResult, Engine, Interval, Method, bonferroni_level
from prereg.inference.replicates import Replicates, replicate
from prereg.inference.units import UnitSums, align_rows, unit_sums
from prereg.inference.verdict import (
    MINIMUM_UNITS,
    Decision,
    Direction,
    Outcome,
    decide,
    decide_conjunction,
)

__all__ = [
    "MINIMUM_UNITS",
    "Alternative",
    "BootstrapPlan",
    "ContrastResult",
    "Decision",
    "Direction",
    "Engine",
    "ExplicitPlan",
    "IdealDistribution",
    "Interval",
    "Method",
    "Outcome",
    "PairedTost",
    "RatioTable",
    "Replicates",
    "ResamplingPlan",
    "UnitSums",
    "align_rows",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "bonferroni_level",
    "check_margin",
    "decide",
    "decide_conjunction",
    "enumeration_p_value",
    "equivalence_level",
    "has_ideal",
    "headline_intervals",
    "headline_intervals_many",
    "hochberg",
    "holm",
    "ideal_distribution",
    "ideal_intervals",
    "intervals",
    "intervals_many",
    "minimum_detectable_effect",
    "monte_carlo_p_value",
    "plan_sums",
    "replicate",
    "sign_flips",
    "step_down_maxt",
    "tost_paired",
    "unit_sums",
]

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

A claim about anything else is a *statistic of case weights* (`mean`, `auroc_gap`, `kendall`, `slope`, ...,
`custom_statistic`), resampled by a *design* (`iid`, `clusters`, `crossed`, `nested`, `blocks`):

>>> from prereg.inference import WeightPlan, auroc, clusters, weighted_intervals
>>> hit = [i >= 24 for i in range(36)]
>>> probe = auroc([i % 7 + 4 * h for i, h in zip(range(36), hit)], hit)
>>> found = weighted_intervals(probe, WeightPlan(clusters(labels), n_replicates=999, seed=1))
>>> decide_conjunction([found], threshold=0.5, direction="greater").outcome.value
'supported'

What stands on which source is written at each function. Departures from arch and scipy are listed in
`prereg.inference.intervals`.
"""

from __future__ import annotations

from prereg.inference.auroc import auroc, auroc_gap
from prereg.inference.blocks import BlockLength, automatic_blocks, blocks, optimal_block_length
from prereg.inference.boundaries import LookBoundary, look_boundaries
from prereg.inference.candidates import Candidates
from prereg.inference.case_sums import CaseSums
from prereg.inference.cautions import LARGE_INFLUENCE, cautions
from prereg.inference.designs import clusters, crossed, iid, nested
from prereg.inference.equivalence import (
    PairedTost,
    check_margin,
    equivalence_level,
    minimum_detectable_effect,
    tost_paired,
)
from prereg.inference.gatekeeping import Gatekept, gatekeep
from prereg.inference.headline import headline_intervals, headline_intervals_many
from prereg.inference.ideal import (
    IdealDistribution,
    has_ideal,
    ideal_distribution,
    ideal_intervals,
)
from prereg.inference.intervals import intervals, intervals_many
from prereg.inference.jackknife import unit_influence
from prereg.inference.multiplicity import (
    benjamini_hochberg,
    benjamini_yekutieli,
    hochberg,
    holm,
    step_down_maxt,
)
from prereg.inference.permutation import (
    Alternative,
    PermutationTest,
    enumeration_p_value,
    monte_carlo_p_value,
    sign_flip_test,
    sign_flips,
)
from prereg.inference.plan import BootstrapPlan, ExplicitPlan, ResamplingPlan, plan_sums
from prereg.inference.rank_statistics import kendall, kendall_gap, spearman, spearman_gap
from prereg.inference.ratio_statistics import (
    accuracy_gap,
    group_mean_difference,
    log_prob_difference,
    mean,
    mean_difference,
    mean_of_ratios,
    r2_gap,
    ratio_of_sums,
)
from prereg.inference.ratios import RatioTable
from prereg.inference.records import ContrastResult, Engine, Interval, Method, bonferroni_level
from prereg.inference.relabelling import label_permutations, refit_permutation
from prereg.inference.replicates import Replicates, replicate
from prereg.inference.replication import FEW_MODELS, RandomEffects, random_effects
from prereg.inference.some import SomeDecision, decide_some
from prereg.inference.spending import alpha_spent, look_alphas, look_level
from prereg.inference.statistics import CustomStatistic, WeightedStatistic, custom_statistic, difference
from prereg.inference.trend_statistics import depth_slope, depth_spearman, slope
from prereg.inference.units import UnitSums, align_rows, unit_sums
from prereg.inference.verdict import (
    MINIMUM_UNITS,
    Decision,
    Direction,
    Outcome,
    decide,
    decide_conjunction,
)
from prereg.inference.weight_plan import Design, WeightPlan
from prereg.inference.weighted import available_methods, weighted_intervals, weighted_intervals_many

__all__ = [
    "FEW_MODELS",
    "LARGE_INFLUENCE",
    "MINIMUM_UNITS",
    "Alternative",
    "BlockLength",
    "BootstrapPlan",
    "Candidates",
    "CaseSums",
    "ContrastResult",
    "CustomStatistic",
    "Decision",
    "Design",
    "Direction",
    "Engine",
    "ExplicitPlan",
    "Gatekept",
    "IdealDistribution",
    "Interval",
    "LookBoundary",
    "Method",
    "Outcome",
    "PairedTost",
    "PermutationTest",
    "RandomEffects",
    "RatioTable",
    "Replicates",
    "ResamplingPlan",
    "SomeDecision",
    "UnitSums",
    "WeightPlan",
    "WeightedStatistic",
    "accuracy_gap",
    "align_rows",
    "alpha_spent",
    "auroc",
    "auroc_gap",
    "automatic_blocks",
    "available_methods",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "blocks",
    "bonferroni_level",
    "cautions",
    "check_margin",
    "clusters",
    "crossed",
    "custom_statistic",
    "decide",
    "decide_conjunction",
    "decide_some",
    "depth_slope",
    "depth_spearman",
    "difference",
    "enumeration_p_value",
    "equivalence_level",
    "gatekeep",
    "group_mean_difference",
    "has_ideal",
    "headline_intervals",
    "headline_intervals_many",
    "hochberg",
    "holm",
    "ideal_distribution",
    "ideal_intervals",
    "iid",
    "intervals",
    "intervals_many",
    "kendall",
    "kendall_gap",
    "label_permutations",
    "log_prob_difference",
    "look_alphas",
    "look_boundaries",
    "look_level",
    "mean",
    "mean_difference",
    "mean_of_ratios",
    "minimum_detectable_effect",
    "monte_carlo_p_value",
    "nested",
    "optimal_block_length",
    "plan_sums",
    "r2_gap",
    "random_effects",
    "ratio_of_sums",
    "refit_permutation",
    "replicate",
    "sign_flip_test",
    "sign_flips",
    "slope",
    "spearman",
    "spearman_gap",
    "step_down_maxt",
    "tost_paired",
    "unit_influence",
    "unit_sums",
    "weighted_intervals",
    "weighted_intervals_many",
]

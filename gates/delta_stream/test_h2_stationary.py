"""H2. The prediction kernel is approximately depth-stationary."""

from prereg import Study


def test_h2_a_kernel_fit_on_one_band_predicts_the_others(study: Study) -> None:
    """A kernel fit on one depth band predicts every other band at least half as well as that band's own.

    Bands are quarters of the depth; updates are scaled by their training RMS, so that one kernel can serve
    several depths at all. The interval resamples subjects.
    """
    h2 = study.verdict("H2")
    assert h2.supported, h2.explain()

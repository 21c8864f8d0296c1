"""H2-decisive. Across bands a kernel does worse than the band's own mean."""

from prereg import Study


def test_h2_decisive_every_cross_band_prediction_is_worse_than_the_mean(study: Study) -> None:
    """A kernel fit on one depth band predicts each other band worse than that band's mean does.

    This is how decisively stationarity fails in the paper: R2 below zero for every ordered pair of bands.
    """
    decisive = study.verdict("H2-decisive")
    assert decisive.supported, decisive.explain()

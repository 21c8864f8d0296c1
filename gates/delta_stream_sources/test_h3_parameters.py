"""H3-parameters. The gain is not bought with parameters."""

from prereg import Study


def test_h3_parameters_parameter_matched_the_state_adds_to_the_readout(study: Study) -> None:
    """The state-space model reconstructs updates better than a per-layer readout of as many parameters.

    The readout's rank is raised until it has at least the model's parameters. The sign of this gap depends on the
    sizes, so the pair of state dimension and rank is frozen; the grid around it is reported.
    """
    parameters = study.verdict("H3-parameters")
    assert parameters.supported, parameters.explain()

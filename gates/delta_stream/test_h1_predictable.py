"""H1. Residual-stream updates are predictable across depth."""

from prereg import Study


def test_h1_history_predicts_updates_better_than_every_null(study: Study) -> None:
    """The last update predicts the next one better than every null does.

    The nulls are the template's mean, histories shuffled among prompts of the same template, and random histories
    of the same covariance. Each must be beaten on the whole stack and on the four deepest updates, on
    subjects that no fit has seen. The interval resamples subjects; the shuffle is refitted for every draw.
    """
    h1 = study.verdict("H1")
    assert h1.supported, h1.explain()

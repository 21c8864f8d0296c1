"""H1-order. One step of history is enough: k* = 1."""

from prereg import Study


def test_h1_order_a_second_step_of_history_adds_nothing_that_matters(study: Study) -> None:
    """A kernel of order 2 explains as much as one of order 1, within the registered tolerance.

    That nothing was found is no evidence that nothing is there; so this is tested as an equivalence: the
    whole interval of the gain must lie inside the tolerance.
    """
    order = study.verdict("H1-order")
    assert order.supported, order.explain()

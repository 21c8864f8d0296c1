"""The scanner that knows where each key of a TOML text stands."""

from __future__ import annotations

from textwrap import dedent

from prereg.protocol.lines import line_of, locate_keys

TEXT = dedent(
    '''\
    # a comment with [brackets] and key = "value"
    format = 1

    [study]
    name = "a [not a table]"
    title = """
    [not.a.table]
    x = 1
    """ # trailing

    [hypotheses.H1]
    terms = [
      { weight = 1.0, fit = "a" },  # first
      { weight = -1.0,
        fit = "b" },
    ]
    "quoted key" = 3
    dotted.inner = 4

    [[hypotheses.H1.contrasts]]
    label = 'one'
    [[hypotheses.H1.contrasts]]
    label = 'two'
    nested = [[1, 2], [3]]
    '''
)


def test_tables_and_keys_are_found_on_their_lines() -> None:
    """Headers, plain, quoted and dotted keys stand where an editor shows them."""
    lines = locate_keys(TEXT)
    assert lines["format",] == 2
    assert lines["study", "name"] == 5
    assert lines["hypotheses", "H1"] == 11
    assert lines["hypotheses", "H1", "quoted key"] == 17
    assert lines["hypotheses", "H1", "dotted", "inner"] == 18


def test_strings_and_comments_hold_no_keys() -> None:
    """What looks like a table inside a string or a comment is not one."""
    lines = locate_keys(TEXT)
    assert ("not", "a", "table") not in lines
    assert ("brackets",) not in lines
    assert ("study", "x") not in lines


def test_elements_of_arrays_and_of_arrays_of_tables_are_counted_from_zero() -> None:
    """An error about the second contrast, or the second term, points at it."""
    lines = locate_keys(TEXT)
    assert lines["hypotheses", "H1", "terms", 1, "fit"] == 15
    assert lines["hypotheses", "H1", "contrasts", 0, "label"] == 21
    assert lines["hypotheses", "H1", "contrasts", 1, "label"] == 23
    assert lines["hypotheses", "H1", "contrasts", 1, "nested", 1, 0] == 24


def test_an_unknown_path_falls_back_on_what_encloses_it() -> None:
    """A missing key is reported at its table's header."""
    lines = locate_keys(TEXT)
    assert line_of(lines, ("hypotheses", "H1", "no such key")) == 11
    assert line_of(lines, ("nothing", "here")) == 1

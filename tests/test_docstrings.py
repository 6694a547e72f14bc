"""Docstrings that take entries over from base classes."""

import inspect

import pytest

import gramian
from gramian import plots
from gramian.docstrings import documented, entries


class Base:
    """A base.

    Parameters
    ----------
    a, b : float
        Two numbers,
        on two lines.
    c : int
        Another.

    Attributes
    ----------
    found_ : int
        What was found.
    """


def test_entries_that_a_class_has_replace_those_of_its_base():
    @documented
    class Derived(Base):
        """A class.

        Parameters
        ----------
        own : str
            Its own.
        c : float
            A better one.
        {those of Base}

        Attributes
        ----------
        {those of Base}

        Examples
        --------
        >>> 1 + 1
        2
        """

    own, inherited = entries(Derived.__doc__, "Parameters"), entries(inspect.getdoc(Base), "Parameters")
    assert list(own) == ["own", "c", "a, b"]
    assert own["c"] == "c : float\n    A better one."
    assert own["a, b"] == inherited["a, b"] == "a, b : float\n    Two numbers,\n    on two lines."
    assert entries(Derived.__doc__, "Attributes") == entries(inspect.getdoc(Base), "Attributes")
    assert Derived.__doc__.endswith("What was found.\n\nExamples\n--------\n>>> 1 + 1\n2\n")


def test_a_class_that_is_not_a_base_is_an_error():
    class Lost:
        """Lost.

        Parameters
        ----------
        {those of Base}
        """

    with pytest.raises(ValueError, match="unpack"):
        documented(Lost)


def test_without_docstrings_as_under_python_oo_nothing_happens():
    class Bare:
        pass

    assert documented(Bare).__doc__.strip() == ""


def test_no_docstring_is_left_with_a_place_to_fill():
    classes = [getattr(gramian, name) for name in gramian.__all__] + [getattr(plots, name) for name in plots.__all__]
    for cls in filter(inspect.isclass, classes):
        for text in (cls.__doc__, *(inspect.getdoc(member) for _, member in inspect.getmembers(cls, callable))):
            assert "{those of " not in (text or ""), cls.__name__
            assert "{ax}" not in (text or ""), cls.__name__

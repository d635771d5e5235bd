"""One root, and the tree of the docstring is the tree of the classes."""

import inspect

from keyhole import errors


def test_every_error_has_the_one_root_and_stands_in_the_tree():
    # Stopped is the user's wish, not an error: it must pass every `except KeyholeError`.
    assert not issubclass(errors.Stopped, errors.KeyholeError)
    # A warning is none either: the result is there.
    assert issubclass(errors.NotConvergedWarning, UserWarning)
    others = (errors.Stopped, errors.NotConvergedWarning)
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found not in others]
    assert len(classes) == 6
    for found in classes:
        assert issubclass(found, errors.KeyholeError)
        assert found.__name__ in (errors.__doc__ or "")

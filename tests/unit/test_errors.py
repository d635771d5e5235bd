"""All errors that a user can cause derive from one class."""

import inspect

from keyhole import errors


def test_every_error_derives_from_one_root():
    # Stopped is the user's wish, not an error: it must pass every `except KeyholeError`.
    assert not issubclass(errors.Stopped, errors.KeyholeError)
    # A warning is none either: the result is there.
    assert issubclass(errors.NotConvergedWarning, UserWarning)
    others = (errors.Stopped, errors.NotConvergedWarning)
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found not in others]
    assert len(classes) == 6
    for found in classes:
        assert issubclass(found, errors.KeyholeError)

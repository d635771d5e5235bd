"""All errors that a user can cause derive from one class."""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyhole import errors


def test_every_error_derives_from_one_root():
    # Stopped is the user's wish, not an error: it must pass every `except KeyholeError`.
    assert not issubclass(errors.Stopped, errors.KeyholeError)
    # A warning is none either: the result is there.
    assert issubclass(errors.NotConvergedWarning, UserWarning)
    assert issubclass(errors.TelltaleWarning, UserWarning)
    others = (errors.Stopped, errors.NotConvergedWarning, errors.TelltaleWarning)
    own = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__]
    classes = [found for found in own if found not in others]
    assert len(classes) == 7
    for found in classes:
        assert issubclass(found, errors.KeyholeError)


def test_silence_is_of_one_thread():
    """The filters of `warnings` are shared by threads: one that leaves its block would let another's warning out."""
    inner, outer = errors.silenced(), errors.silenced()
    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        pool.submit(inner.__enter__).result()
        with outer:
            errors.warn_not_converged("here")
        pool.submit(errors.warn_not_converged, "there").result()
        with pytest.raises(errors.NotConvergedWarning, match="here"):
            errors.warn_not_converged("here")
        pool.submit(inner.__exit__, None, None, None).result()

"""The version, read by the build and by everything that writes a result."""

__version__ = "0.1.0"

"""The report: typed content first, then pictures and templates."""

from keyhole.report.build import make_content
from keyhole.report.content import Content

__all__ = ["Content", "make_content"]

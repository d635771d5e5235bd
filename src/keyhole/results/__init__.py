"""What a run gives back, and the folder in which it is kept."""

from keyhole.results.assessment import Assessment
from keyhole.results.folder import load

__all__ = ["Assessment", "load"]

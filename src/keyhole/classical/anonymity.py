"""k-anonymity (Samarati and Sweeney 1998): how many records share their cell with fewer than k - 1 others.

It counts in the sample and says nothing about the population, so it has no tau1 and no tau2.
"""

from keyhole.classical.estimate import Details, Estimate
from keyhole.classical.sample import Deadline, Sample

LEVELS = (2, 3, 5)


def count_violations(sample: Sample, deadline: Deadline) -> Estimate:
    """Count the records in cells of fewer than k records."""
    deadline.check()
    found: Details = {f"below_{k}": int((sample.cell_count < k).sum()) for k in LEVELS}
    return Estimate(None, None, details=found)

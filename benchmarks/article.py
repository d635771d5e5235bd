"""The article's experiments, its parametric model over K, and its algorithm as printed: see benchmarks/article/.

    python benchmarks/article.py                                  # all, hours
    python benchmarks/article.py --time-limit 20s --largest 1000  # a quick pass
    python benchmarks/article.py --parts steps                    # which printed steps leave the posterior

Data are read from ../shared/data (--data); what is absent is left out. Figures need matplotlib: pip install matplotlib.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of the same name beside this file is the package; the script's own folder would hide the others.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    runpy.run_module("benchmarks.article", run_name="__main__")

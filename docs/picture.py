"""Make ``docs/at_a_glance.png``, the README's picture, from ``examples/plot_at_a_glance.py``.

Run from anywhere: ``python docs/picture.py``.
"""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

here = Path(__file__).parent
runpy.run_path(str(here.parent / "examples" / "plot_at_a_glance.py"))
plt.gcf().savefig(
    here / "at_a_glance.png", dpi=90, pil_kwargs={"optimize": True}
)

"""Thumbnails of the gallery: one panel of a figure, since a row of panels is too small to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PADDING = 0.06
"""Inches around a panel."""
SIZE = (400, 280)
"""Pixels of a thumbnail, as sphinx-gallery has them."""


def one_panel(block: Any, variables: Any, settings: Any, **options: Any) -> str:
    """Keep figures as sphinx-gallery does, and beside an example's first figure its first panel."""
    import matplotlib.pyplot as plt
    from sphinx_gallery.scrapers import matplotlib_scraper

    images, figures = variables["image_path_iterator"], plt.get_fignums()
    if figures and len(images) == 0:
        first = Path(images.image_path.format(1))
        _save_first_panel(
            plt.figure(figures[0]), first.parent / "panel" / first.name
        )
    return str(matplotlib_scraper(block, variables, settings, **options))


def _save_first_panel(figure: Any, path: Path) -> None:
    """Write the first panel of a figure that has several."""
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    if len(panels) > 1:
        figure.canvas.draw()
        box = panels[0].get_tightbbox().padded(PADDING * figure.dpi)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(
            path,
            bbox_inches=box.transformed(figure.dpi_scale_trans.inverted()),
            dpi=150,
        )


def put_in_place(app: Any) -> None:
    """Make thumbnails of panels, once the gallery is made."""
    from sphinx_gallery.utils import scale_image

    for panel in Path(app.srcdir).glob("gallery/**/images/panel/*_001.png"):
        name = panel.stem.removesuffix("_001")
        scale_image(
            str(panel),
            str(panel.parents[1] / "thumb" / f"{name}_thumb.png"),
            *SIZE,
        )


def setup(app: Any) -> dict[str, bool]:
    """Run after sphinx-gallery, which makes the gallery when the builder is ready."""
    app.connect("builder-inited", put_in_place, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The notebook of the documentation, executed in a kernel of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.places import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SPARK = "spark"
"""The tag of cells that need Spark."""


def read_notebook() -> Any:
    """The notebook as it is in the documentation."""
    import nbformat

    return nbformat.read(NOTEBOOK, 4)


def notebook_of(cells: Sequence[str]) -> Any:
    """A notebook of these cells of code."""
    import nbformat

    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook with the output of its cells; an error in one of them is raised."""
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def shown(cell: Any, kind: str = "text/html") -> list[str]:
    """What a cell shows, in a format."""
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


def cell_with(notebook: Any, text: str) -> Any:
    """The cell of code that contains a text; the first one."""
    return next(cell for cell in notebook.cells if cell.cell_type == "code" and text in cell.source)


def check_documented(notebook: Any) -> None:
    """Assert what the executed notebook of the documentation has to show."""
    (graph,) = shown(cell_with(notebook, "topology = builder.build()"))
    assert "<svg" in graph
    started = cell_with(notebook, 'every="200ms"')
    (run,) = shown(started)
    assert "stopped" in run, "it was kept up to date"
    assert "starting" not in run
    (printed,) = [output["text"] for output in cell_with(notebook, "print(run.status)").outputs]
    assert "18 rows read" in printed
    (frame,) = shown(cell_with(notebook, "\nresults.to_pandas()".strip()))
    assert "<td>ada</td>" in frame
    assert any("18 rows" in page and "stopped" in page for page in shown(cell_with(notebook, "run.stop()")))
    assert shown(cell_with(notebook, "plot.bar"), "image/png")
    (picture,) = shown(cell_with(notebook, "replay({"))
    assert "received 5 = 3 windowed + 1 late + 1 pending" in picture
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"

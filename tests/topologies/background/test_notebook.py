"""What runs do in a notebook, and the notebook of the documentation without its Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.helpers.notebooks import NOTEBOOK, SPARK, check_documented, executed, notebook_of, read_notebook, shown
from tests.helpers.places import ROOT

BEGINNING = """
from windbolt import *
from windbolt import sinks, spouts

def topology(function):
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("n long", [(1,)], [(2,)]))
    builder.set_sink("out", sinks.foreach_batch(function, frame="arrow")).from_("orders")
    return builder.build()

import threading
gate = threading.Event()
"""


def test_a_run_shows_itself_once_in_its_cell_and_is_kept_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = executed(
        notebook_of(
            [
                BEGINNING,
                "run = topology(lambda frame, batch: gate.wait(60)).start(engine='local')",
                "run",
                "gate.set(); run.wait(); None",
                "run.show(); run",
            ]
        ),
        tmp_path,
        monkeypatch,
    )
    _, first, second, _, last = notebook.cells
    for cell in (first, second, last):
        (page,) = shown(cell)
        assert "finished" in page
        (plain,) = shown(cell, "text/plain")
        assert plain.startswith("<Run of 'shop': finished, 3 batches, 2 rows read, 0 rows emitted")


@pytest.mark.extended
def test_a_run_that_is_the_last_expression_of_its_cell_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        BEGINNING,
        "run = topology(lambda frame, batch: None).start(engine='local')\nrun",
        "run.wait(); None",
        "quiet = topology(lambda frame, batch: None).start(engine='local', show=False)",
        "topology(lambda frame, batch: None).run(engine='local'); None",
    ]
    notebook = executed(notebook_of(cells), tmp_path, monkeypatch)
    assert [len(shown(cell)) for cell in notebook.cells] == [0, 1, 0, 0, 0]


@pytest.mark.extended
def test_a_failed_run_says_so_where_it_is_shown_though_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        BEGINNING,
        "def fail(frame, batch):\n    gate.wait(60)\n    raise ValueError('no such thing')\n"
        "run = topology(fail).start(engine='local')",
        "gate.set(); run._display._thread.join(60)",
    ]
    notebook = executed(notebook_of(cells), tmp_path, monkeypatch)
    (page,) = shown(notebook.cells[1])
    assert "failed" in page
    assert "no such thing" in page


def test_the_notebook_of_the_documentation_runs_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = read_notebook()
    session, end = [cell for cell in notebook.cells if SPARK in cell.metadata.get("tags", [])]
    assert 'where = {"spark": spark}' in session.source
    assert end.source == "spark.stop()"
    session.source, end.source = 'where = {"engine": "local"}', ""
    check_documented(executed(notebook, tmp_path, monkeypatch))


def test_the_notebook_is_kept_without_output() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert not any(folder in json.dumps(stored) for folder in ("/tmp", tempfile.gettempdir()))


def test_nothing_of_notebooks_is_imported_without_one() -> None:
    script = (
        "import sys\nfrom windbolt import *\nfrom topologies.background import Run\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('IPython', 'ipykernel', 'matplotlib')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"

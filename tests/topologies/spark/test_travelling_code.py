"""Which modules are sent to the executors of a cluster, and that the same ones are always sent alike."""

from __future__ import annotations

import ast
import pickle
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from topologies.spark import shipping
from topologies.spark.shipping import (
    MOST_BYTES,
    PREFIX,
    ModuleOwner,
    forget_other_modules,
    modules_needed_by,
    owner_of,
    with_local_paths,
    write_archive,
)
from topologies.spark.spark_tasks import pack_topology
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count
from windowing.errors import ConfigError

BOLTS = """
from windbolt import BatchBolt
from .near import RATE
import beside
import pytest_timeout
try:
    import hypothesis
except ImportError:
    hypothesis = None

class Taxed(BatchBolt):
    outputs = "user string"

    def execute(self, batch):
        import late_one
        import pyarrow.csv
        return batch
"""
FILES = {
    "my_shop/__init__.py": "",
    "my_shop/bolts.py": BOLTS,
    "my_shop/near.py": "RATE = 2\n",
    "my_shop/rates.json": "{}",
    "my_shop/not_loaded.py": "import playwright\nimport of_not_loaded\n",
    "my_shop/.hidden/secret.txt": "",
    "my_shop/__pycache__/near.pyc": "",
    "my_shop/venv/pyvenv.cfg": "",
    "my_shop/venv/big.py": "import ruff\n",
    "beside.py": "import my_shop\nfrom numpy import array\n",
    "late_one.py": "import orjson\n",
    "of_not_loaded.py": "",
    "unrelated.py": "",
}


@pytest.fixture
def taxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The bolt of a user's package, with other modules beside it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    before = set(sys.modules)
    yield import_module("my_shop.bolts").Taxed()
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("my_shop", "beside", "late_one"):
            del sys.modules[name]


def of(bolt: Any) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("user string", [{"user": "ada"}]))
    builder.set_bolt("taxed", bolt).shuffle_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("taxed")
    return builder.build()


def test_all_modules_that_a_bolt_may_import_travel_whole(taxed: Any, tmp_path: Path) -> None:
    found = modules_needed_by(of(taxed))
    assert found.users == {
        "my_shop": str(tmp_path / "my_shop"),
        "beside": str(tmp_path / "beside.py"),
        "late_one": str(tmp_path / "late_one.py"),
        "of_not_loaded": str(tmp_path / "of_not_loaded.py"),
    }


def test_only_what_a_bolt_cannot_be_loaded_without_has_to_be_installed(taxed: Any) -> None:
    assert modules_needed_by(of(taxed)).installed == {"numpy", "pytest_timeout"}


def test_an_archive_has_the_files_of_a_package_and_nothing_that_others_made(taxed: Any, tmp_path: Path) -> None:
    path, name = write_archive(str(tmp_path), modules_needed_by(of(taxed)).users)
    assert name.startswith(PREFIX)
    assert zipfile.ZipFile(path).namelist() == [
        "beside.py",
        "late_one.py",
        "my_shop/__init__.py",
        "my_shop/bolts.py",
        "my_shop/near.py",
        "my_shop/not_loaded.py",
        "my_shop/rates.json",
        "of_not_loaded.py",
    ]


def test_the_same_files_are_the_same_archive_and_others_are_not(taxed: Any, tmp_path: Path) -> None:
    places = modules_needed_by(of(taxed)).users
    first = write_archive(str(tmp_path), places)
    data = Path(first[0]).read_bytes()
    (tmp_path / "beside.py").touch()
    assert write_archive(str(tmp_path), places) == first
    assert Path(first[0]).read_bytes() == data
    (tmp_path / "beside.py").write_text("RATE = 3\n")
    assert write_archive(str(tmp_path), places)[1] != first[1]


def test_data_that_lies_beside_code_is_not_sent_unasked(taxed: Any, tmp_path: Path) -> None:
    with (tmp_path / "my_shop" / "big.bin").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ConfigError, match=r"64 MiB.*the largest is my_shop/big\.bin, with 64 MiB.*install the package"):
        write_archive(str(tmp_path), modules_needed_by(of(taxed)).users)


def test_modules_of_an_earlier_run_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (tmp_path / f"{PREFIX}{name}" for name in ("old", "new"))
    for folder, rate in ((old, 1), (new, 2)):
        folder.mkdir()
        (folder / "rates_sent.py").write_text(f"RATE = {rate}\n")
    monkeypatch.setattr(sys, "path", [str(old), *sys.path])
    assert import_module("rates_sent").RATE == 1
    sys.path.insert(0, str(new))
    forget_other_modules([new.name])
    assert str(old) not in sys.path
    assert import_module("rates_sent").RATE == 2
    forget_other_modules([new.name])
    assert "rates_sent" in sys.modules
    forget_other_modules([])
    assert "rates_sent" not in sys.modules


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("os.path", ModuleOwner.PYTHON),
        ("windowing.errors", ModuleOwner.WINDBOLT),
        ("numpy.linalg", ModuleOwner.INSTALLED),
        ("pyspark", ModuleOwner.INSTALLED),
        ("tests.helpers", ModuleOwner.USER),
        ("there_is_no_such_module", ModuleOwner.NO_OBSERVERS),
    ],
)
def test_whose_a_module_is(name: str, owner: ModuleOwner) -> None:
    assert owner_of(name) is owner


EVERYWHERE = """
import at_the_top, and_this.deeper
try:
    from tried import x
except ImportError:
    import handled
else:
    import otherwise
finally:
    import at_last
if x:
    import when
elif y:
    import when_not
else:
    import never
for one in (lambda: 0)():
    while one:
        with one as other:
            import deep
    else:
        import after_all
match x:
    case 1:
        import matched
class A:
    import of_a_class
    async def method(self):
        async with self as other:
            async for each in self:
                import in_a_method
        def inner():
            import in_an_inner_one
"""


DEEP = "if x == 0:\n    import one\n" + "".join(f"elif x == {at}:\n    import m{at}\n" for at in range(1, 1200))


@pytest.mark.parametrize("text", [EVERYWHERE, BOLTS, DEEP], ids=["everywhere", "a bolt", "a long chain"])
def test_imports_are_found_wherever_python_finds_them(text: str) -> None:
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    wanted = [(alias.name, node in tree.body) for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    wanted += [
        (name, node in tree.body)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and not node.level
        for name in (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
    ]
    assert sorted(shipping._imports(text, "")) == sorted(wanted)
    assert len(wanted) > 6


def test_a_file_that_has_changed_is_read_anew(taxed: Any, tmp_path: Path) -> None:
    assert "of_not_loaded" in modules_needed_by(of(taxed)).users
    assert "unrelated" not in modules_needed_by(of(taxed)).users
    (tmp_path / "my_shop/not_loaded.py").write_text("import unrelated  # and no more\n")
    found = modules_needed_by(of(taxed)).users
    assert "unrelated" in found
    assert "of_not_loaded" not in found


POLICIES = """
from windbolt.policies import Action, EvictionPolicy

class Near(EvictionPolicy):
    def evict(self, event, context):
        return Action.PROCESS
"""


def test_policies_of_a_module_of_the_user_s_travel_with_the_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_near.py").write_text(POLICIES)
    (tmp_path / "my_policies.py").write_text("from my_near import Near\n\nclass Nearer(Near):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    invalidate_caches()
    policy = import_module("my_policies").Nearer()
    builder = TopologyBuilder("near")
    builder.set_spout("numbers", spouts.memory("n long, ts long"))
    bolt = AggregateBolt(n=count()).with_window(1).with_timestamp_field("ts").with_policies(eviction=policy)
    builder.set_bolt("near", bolt).global_grouping("numbers")
    sent = pack_topology(builder.build())
    monkeypatch.undo()
    for name in ("my_policies", "my_near"):
        monkeypatch.delitem(sys.modules, name)
    invalidate_caches()
    assert type(pickle.loads(sent).windowed["near"].eviction).__name__ == "Nearer"
    assert "my_policies" not in sys.modules


def test_the_files_of_modules_that_were_sent_are_named_as_they_are_here() -> None:
    folder = f"/srv/work/app-1/0/{PREFIX}0123456789abcdef"
    users = {"shop": "/home/ann/src/shop", "rules": "/home/ann/rules.py"}
    said = f'x at {folder}/shop/bolts.py:7, in execute; File "{folder}/rules.py", line 2; at {folder}/manager/a.py:3'
    found = with_local_paths(users, said)
    assert "/home/ann/src/shop/bolts.py:7, in execute" in found
    assert '/home/ann/rules.py", line 2' in found
    assert f"{PREFIX}0123456789abcdef/manager/a.py:3" in found

"""The driver's own worker processes: tasks in order, errors as they are, and nothing that outlives its run."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import pickle
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from manager.storage.segment_files import FileSegments
from tests.helpers.places import ROOT
from topologies.engine.batch import Context
from topologies.engine.failures import worker_position
from topologies.spark.shipping import own_paths
from topologies.spark.spark_tasks import SparkExecutor, pack_topology
from topologies.spark.workers.pool import TASKS, PoolExecutor, executor_for
from topologies.spark.workers.processes import SPARE, SparePool, WorkerPool
from topologies.testing.bolt_run import make_window
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Bolt, ConfigError, WindboltError
from windowing.errors import BoltError, StorageError


class Same(Bolt):
    outputs = "number long"

    def execute(self, row: Any) -> Any:
        return row


def topology(name: str = "numbers", bolt: Bolt | None = None) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("numbers", spouts.memory("number long", [(1,)]))
    builder.set_bolt("same", bolt or Same()).shuffle_grouping("numbers")
    builder.set_sink("out", sinks.discard()).from_("same")
    return builder.build()


def context(of: Topology | None = None) -> Context:
    return Context(of or topology(), FileSegments("nowhere"), "5", 5, 0, {})


def load(pool: WorkerPool, of: Topology, wanted: int = 1) -> None:
    pool.load(pack_topology(of), own_paths(), wanted)


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    pool = WorkerPool(2)
    yield pool
    pool.close()


@pytest.fixture
def pool(workers: WorkerPool) -> WorkerPool:
    """Two workers at most, which the tests share as long as they live."""
    load(workers, topology())
    return workers


def doubled(item: int, context: Context) -> int:
    return 2 * item


def pid(item: Any, context: Context) -> int:
    return os.getpid()


def met(item: tuple[Path, str, str], context: Context) -> int:
    """Waits for another task to run at the same time."""
    folder, mine, other = item
    (folder / mine).touch()
    while not (folder / other).exists():
        time.sleep(0.001)
    return os.getpid()


def end(item: str, context: Context) -> Any:
    match item:
        case "config":
            raise ConfigError("a length of -1 s", why="lengths are positive", do="say another")
        case "bolt":
            raise BoltError("bolt 'same' failed", why="ValueError: no", do="fix it")
        case "value":
            raise ValueError("seven is not eight")
        case "exit":
            sys.exit("enough")
        case "interrupt":
            raise KeyboardInterrupt
        case "answer":
            return lambda: None
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "gone":
            os._exit(7)
        case "crashed":
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        case "forked":
            if os.fork() == 0:
                time.sleep(60)  # with the socket of its parent
            os._exit(7)
    return item


def forking(item: str, context: Context) -> Any:
    """Goes on in two processes, of which the child is the first to come out; or, in more words, by way of libraries."""
    match item:
        case "fork":
            child = os.fork()
            if child:
                assert os.waitpid(child, 0) == (child, 0)
        case "fails":
            child = os.fork()
            if child == 0:
                raise ValueError("of a child")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        case "pool":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(abs, [-1, -2])
        case "terminated":
            process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
            process.start()
            process.terminate()
            process.join()
            return process.exitcode
        case "program":
            with subprocess.Popen(["sleep", "600"]) as program:
                program.terminate()
            return program.returncode
    return item


def overfull(item: str, context: Context) -> None:
    """Writes a segment in a process whose files may have no more than a few bytes, as on a disk that is full."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    try:
        with FileSegments(item).writer("5") as writer:
            writer.add(pa.table({"x": range(1_000)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_a_worker_that_cannot_be_started_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    pool = WorkerPool(1)
    load(pool, topology(), wanted=0)
    monkeypatch.setattr(socket, "socketpair", refused)
    with pytest.raises(WindboltError, match="a worker process cannot be started") as raised:
        pool.map(doubled, [4], context())
    assert raised.value.why == f"{os.strerror(errno.EMFILE)} (EMFILE)"
    assert raised.value.do == "allow this process more open files (ulimit -n), then rerun"
    monkeypatch.undo()
    assert pool.map(doubled, [4], context()) == [8]
    pool.close()


def test_a_full_disk_comes_back_from_a_worker_in_words(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    with pytest.raises(StorageError, match=rf"{tmp_path}/5/\w+\.arrow cannot be written") as raised:
        pool.map(overfull, [str(tmp_path)], context())
    assert raised.value.why == f"{os.strerror(errno.EFBIG)} (EFBIG)"
    assert raised.value.do == "allow larger files (ulimit -f), then rerun"
    assert pool.map(doubled, [4], context()) == [8]


def test_only_the_worker_itself_answers(capfd: pytest.CaptureFixture[str]) -> None:
    ways = ["fork", "plain", "pool", "fails", "terminated", "program"]
    wanted = ["fork", "plain", [1, 2], "fails", -signal.SIGTERM, -signal.SIGTERM]
    pool = WorkerPool(2)  # of its own: workers write to the stderr that there was when they were started
    load(pool, topology())
    assert pool.map(forking, ways * 5, context()) == wanted * 5
    assert pool.map(doubled, range(20), context()) == [2 * number for number in range(20)]
    pool.close()
    assert capfd.readouterr().err.count("ValueError: of a child") == 5


def test_an_answer_of_another_process_or_to_another_task_is_none(pool: WorkerPool) -> None:
    pool.map(pid, [0], context())
    worker = pool._workers[0]
    theirs, ours = socket.socketpair()
    worker.connection, kept = Connection(ours.detach()), worker.connection
    worker.give(3, b"job", "item")
    with Connection(theirs.detach()) as other:
        number, *_ = pickle.loads(other.recv_bytes())
        for process, answered in ((0, number), (worker.process.pid, number - 1)):
            other.send_bytes(pickle.dumps((process, answered, "wrong", None)))
            assert worker.answer() is None
            assert worker.busy
        other.send_bytes(pickle.dumps((worker.process.pid, number, "right", None)))
        assert worker.answer() == ("right", None)
    worker.connection.close()
    worker.connection = kept


def leave_behind(item: int, context: Context) -> list[int]:
    """A program, and a child in a process group of its own."""
    program = subprocess.Popen(["sleep", "600"])
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        time.sleep(600)
    return [program.pid, child]


def test_what_bolts_have_started_is_gone_when_the_run_has_ended() -> None:
    executor = executor_for(Session("local", None))  # type: ignore[arg-type]
    executor.load(topology())
    (left,) = executor.map(leave_behind, [1], context())
    assert all(map(runs, left))
    executor.close()
    await_end(*left)


def await_end(*processes: int) -> None:
    """Until none of the processes runs; who is no child of this one is gone a moment after it was killed."""
    deadline = time.monotonic() + 20
    while any(map(runs, processes)):
        assert time.monotonic() < deadline, "a process lives"
        time.sleep(0.01)


def test_results_come_in_the_order_of_the_items(pool: WorkerPool) -> None:
    assert pool.map(doubled, [], context()) == []
    assert pool.map(doubled, range(100), context()) == [2 * number for number in range(100)]
    assert len(pool._workers) == 2


def test_tasks_run_at_the_same_time_and_never_in_the_driver(pool: WorkerPool, tmp_path: Path) -> None:
    assert pool.map(pid, [0], context()) != [os.getpid()]
    assert len(set(pool.map(met, [(tmp_path, "a", "b"), (tmp_path, "b", "a")], context()))) == 2


def test_a_task_has_its_context_with_the_topology(pool: WorkerPool) -> None:
    assert pool.map(batch_and_name, [0], context()) == [(5, "numbers")]
    load(pool, topology("others"))
    assert pool.map(batch_and_name, [0, 1, 2], context()) == [(5, "others")] * 3


def batch_and_name(item: Any, context: Context) -> tuple[int, str]:
    return context.batch, context.topology.name


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("config", ConfigError, "a length of -1 s. lengths are positive. say another."),
        ("bolt", BoltError, "bolt 'same' failed. ValueError: no. fix it."),
        ("value", WindboltError, "a task failed .* ValueError: seven is not eight. .* batch 5 was not committed"),
        ("exit", WindboltError, "SystemExit: enough"),
        ("interrupt", WindboltError, "KeyboardInterrupt"),
        ("answer", WindboltError, "a task failed .* pickle"),
        ("killed", WindboltError, r"worker process was killed \(SIGKILL\) in end of killed.* memory.* batch 5 was not"),
        ("gone", WindboltError, "a worker process ended with status 7 in end of gone.*os._exit"),
        ("crashed", WindboltError, r"a worker process crashed \(SIGSEGV\)"),
        ("forked", WindboltError, "a worker process ended with status 7"),
    ],
)
def test_an_error_says_what_happened_and_the_next_tasks_run(
    pool: WorkerPool, how: str, kind: type[WindboltError], said: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        pool.map(end, ["fine", how, "fine"], context())
    assert isinstance(caught.value, kind)
    assert pool.map(doubled, [1, 2, 3], context()) == [2, 4, 6]


def killed_on_a_window(item: int, context: Context) -> None:
    position = worker_position()
    assert position is not None
    position.enter(make_window([(1,), (2,)], "number long"))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_on_a_window_is_told_of_limits(pool: WorkerPool) -> None:
    with pytest.raises(WindboltError, match="on the window at 1970-01-01T00:00:00Z of 2 events") as caught:
        pool.map(killed_on_a_window, [0], context())
    assert "with_limits(window_bytes=) ends a run before that: batch 5 was" in str(caught.value)


def slow(item: Path | None, context: Context) -> None:
    """Fails as soon as the other task has begun, which then runs for long."""
    if item is not None:
        item.touch()
        time.sleep(0.3)
        (item.parent / "written").touch()
    else:
        time.sleep(0.02)
        raise ValueError("no")


def test_no_task_goes_on_after_another_has_failed(pool: WorkerPool, tmp_path: Path) -> None:
    pool.map(met, [(tmp_path, "a", "b"), (tmp_path, "b", "a")], context())  # there are two workers
    with pytest.raises(WindboltError, match="ValueError: no"):
        pool.map(slow, [tmp_path / "begun", None], context())
    left = [worker.process.pid for worker in pool._workers]
    assert len(left) == 1
    assert not (tmp_path / "written").exists()


def test_a_worker_that_dies_between_maps_is_replaced(pool: WorkerPool) -> None:
    (first,) = pool.map(pid, [0], context())
    os.kill(first, signal.SIGKILL)
    (worker,) = (worker for worker in pool._workers if worker.process.pid == first)
    worker.process.wait()
    assert pool.map(pid, [0], context()) != [first]


def test_a_pool_that_is_closed_breaks_off_what_it_does(tmp_path: Path) -> None:
    pool, failures = WorkerPool(1), []
    load(pool, topology())

    def run() -> None:
        try:
            pool.map(met, [(tmp_path, "begun", "never")], context())
        except WindboltError as error:
            failures.append(str(error))

    thread = Thread(target=run)
    thread.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.001)
    pool.close()
    thread.join(10)
    assert failures == ["the run was aborted. rerun: batch 5 was not committed."]
    with pytest.raises(WindboltError, match="the workers have ended"):
        pool.map(doubled, [1], context())
    pool.close()


def test_workers_are_no_more_than_are_needed_and_leave_nothing_behind() -> None:
    def run() -> int:
        pool = WorkerPool(2)
        load(pool, topology())
        first = pool.map(pid, [0], context())
        assert pool.map(pid, [0], context()) == first
        (worker,) = pool._workers
        pool.close()
        assert worker.process.returncode is not None, "a zombie"
        return len(os.listdir("/dev/fd"))

    assert run() == run()


def loud(item: Any, context: Context) -> int:
    print("said a bolt", item)
    sys.stderr.write("complained a bolt\n")
    os.write(1, b"wrote a library\n")
    return sys.stdin.read().count("\n")


def test_what_tasks_print_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    pool = WorkerPool(1)
    load(pool, topology())
    assert pool.map(loud, [1, 2], context()) == [0, 0]
    pool.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        line for item in (1, 2) for line in (f"said a bolt {item}", "complained a bolt", "wrote a library")
    ]


def environment(name: str, context: Context) -> str | None:
    return os.environ.get(name)


def test_the_environment_is_that_of_sparks_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pool = WorkerPool(1, {"CITY": "Chur"})
    load(pool, topology())
    assert pool.map(environment, ["OMP_NUM_THREADS", "CITY"], context()) == ["1", "Chur"]
    assert pool.map(folder, [0], context()) == [os.getcwd()]
    pool.close()
    assert WorkerPool(1, {"OMP_NUM_THREADS": "3"})._environment["OMP_NUM_THREADS"] == "3"


def folder(item: Any, context: Context) -> str:
    return os.getcwd()


def module_of_bolt(item: Any, context: Context) -> tuple[str, int, bool]:
    bolt: Any = context.topology.plain["same"].bolt
    return type(bolt).__module__, bolt.execute(1), type(bolt).__module__ in sys.modules


def test_a_module_of_the_users_own_goes_along(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_my_own.py").write_text(
        "from windowing import Bolt\n\n\ndef helper(row):\n    return row + 41\n\n\n"
        "class Mine(Bolt):\n    outputs = 'number long'\n\n    def execute(self, row):\n        return helper(row)\n"
    )
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        import of_my_own  # type: ignore[import-not-found]
    built = topology("mine", of_my_own.Mine())
    load(pool, built)
    assert pool.map(module_of_bolt, [0], context(built)) == [("of_my_own", 42, False)]


class Session:
    """As much of a session as is asked who runs its tasks."""

    def __init__(self, master: str, tasks: str | None) -> None:
        self.sparkContext = SimpleNamespace(master=master, defaultParallelism=3, environment={}, getConf=dict)
        self.conf = {TASKS: tasks} if tasks else {}


@pytest.mark.parametrize(
    ("master", "tasks", "kind", "workers"),
    [
        ("local", None, PoolExecutor, 1),
        ("local[2]", None, PoolExecutor, 2),
        ("local[64]", None, PoolExecutor, 3),
        ("local[*]", "auto", PoolExecutor, min(3, os.cpu_count() or 1)),
        ("local[2]", "spark", SparkExecutor, None),
        ("local[2,4]", None, SparkExecutor, None),
        ("local[2, 1]", None, SparkExecutor, None),
        ("local[*,4]", "pool", PoolExecutor, min(3, os.cpu_count() or 1)),
        ("local-cluster[2,1,512]", None, SparkExecutor, None),
        ("spark://host:7077", None, SparkExecutor, None),
        ("yarn", "spark", SparkExecutor, None),
    ],
)
def test_the_master_decides_who_runs_tasks(master: str, tasks: str | None, kind: type, workers: int | None) -> None:
    found: Any = executor_for(Session(master, tasks))  # type: ignore[arg-type]
    assert (type(found), found.slots) == (kind, 3)
    assert workers is None or found.pool.most == workers


@pytest.mark.parametrize(
    ("master", "tasks", "said"),
    [
        ("local[2]", "threads", "spark.windbolt.tasks is 'threads'. it says .* 'spark', .* 'pool'. leave it out"),
        ("yarn", "pool", "spark.windbolt.tasks is 'pool', and the master is 'yarn'. .* leave it out"),
        ("local-cluster[2,1,512]", "pool", "the master is 'local-cluster"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(master: str, tasks: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        executor_for(Session(master, tasks))  # type: ignore[arg-type]


def test_the_next_run_has_the_workers_of_the_last_unless_something_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(how: str = "fine", master: str = "local") -> int:
        executor = executor_for(Session(master, None))  # type: ignore[arg-type]
        executor.load(topology())
        try:
            executor.map(end, [how], context())
            return int(executor.map(pid, [0], context())[0])
        except WindboltError:
            return 0
        finally:
            executor.close()

    first = run()
    assert run() == first
    run("value")
    second = run()
    assert second != first
    monkeypatch.setenv("CITY", "Chur")
    third = run()
    assert third != second
    SPARE.end()
    assert not any(map(runs, (first, second, third)))


def test_workers_that_wait_for_long_end() -> None:
    spare = SparePool(seconds_kept=0)
    pool = spare.take(1, {})
    load(pool, topology())
    (worker,) = pool.map(pid, [0], context())
    spare.leave(pool)
    await_end(worker)


def runs(process: int) -> bool:
    """Whether a process runs; a zombie, which waits for its parent's attention, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def unpacked(process: int) -> Unready:
    if os.getpid() != process:
        sys.exit("not here")
    return Unready()


class Unready(Bolt):
    """Cannot be unpacked by another process."""

    outputs = "number long"

    def __reduce__(self) -> Any:
        return unpacked, (os.getpid(),)

    def execute(self, tuple: Any) -> None:
        return None


def test_a_topology_that_cannot_be_unpacked_is_an_error_of_its_first_task(pool: WorkerPool) -> None:
    load(pool, topology("broken", Unready()))
    with pytest.raises(WindboltError, match="SystemExit: not here"):
        pool.map(doubled, [1], context())


DRIVER = """
from tests.topologies.spark.test_pool import *

pool = WorkerPool(2)
load(pool, topology())
pool.map(globals()[sys.argv[2]], [Path(sys.argv[1]) / name for name in ("a", "b")], context())
"""


def outlive(item: Path, context: Context) -> None:
    """Holds a file for as long as its process lives."""
    with open(item, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        item.with_suffix(".held").touch()
        while True:
            time.sleep(0.001)


def in_c(item: Path, context: Context) -> None:
    """Starts a program, and has no time for anything else any more."""
    program = subprocess.Popen(["sleep", "600"])
    draft = item.with_suffix(".draft")
    draft.write_text(f"{os.getpid()} {program.pid}")
    draft.rename(item.with_suffix(".held"))
    re.match(r"(a+)+$", "a" * 40 + "b")


def killed_driver(folder: Path, task: str, *, reaper: bool = True) -> None:
    """Kill a driver as soon as its two tasks have begun; without its ``reaper``, kill that before."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), task], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as driver:
        while driver.poll() is None and len(list(folder.glob("*.held"))) < 2:
            time.sleep(0.01)
        if not reaper:
            os.kill(reaper_of(driver.pid), signal.SIGKILL)
        driver.kill()
    assert driver.returncode == -signal.SIGKILL


def reaper_of(driver: int) -> int:
    deadline = time.monotonic() + 20
    while True:  # its name is not to be read at once: it is empty while a process becomes another program
        found = [int(each.name) for each in Path("/proc").glob("[0-9]*") if is_reaper(each, driver)]
        if len(found) == 1:
            return found[0]
        assert time.monotonic() < deadline, f"{len(found)} reapers"
        time.sleep(0.001)


def is_reaper(process: Path, driver: int) -> bool:
    try:
        return process.joinpath("cmdline").read_bytes().endswith(f"reaping.py\0{driver}\0".encode())
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.extended
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    killed_driver(tmp_path, "outlive")
    deadline = time.monotonic() + 20
    for name in ("a", "b"):
        with open(tmp_path / name, "wb") as held:
            while not locked(held):
                assert time.monotonic() < deadline, "a worker lives"
                time.sleep(0.001)


def locked(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_workers_in_c_code_and_what_they_have_started_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    killed_driver(tmp_path, "in_c")
    await_end(*(int(number) for held in tmp_path.glob("*.held") for number in held.read_text().split()))


@pytest.mark.extended
def test_workers_in_c_code_need_no_reaper_to_die_of_their_drivers_death(tmp_path: Path) -> None:
    killed_driver(tmp_path, "in_c", reaper=False)
    workers, programs = zip(*(map(int, held.read_text().split()) for held in tmp_path.glob("*.held")), strict=True)
    await_end(*workers)
    for program in programs:
        os.kill(program, signal.SIGKILL)  # nobody is left who could have known of them


def test_a_reaper_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """And is told of the processes that were there before."""
    done = subprocess.run(
        [sys.executable, "-c", REPLACED], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    await_end(*map(int, done.stdout.split()))


REPLACED = """
from tests.topologies.spark.test_pool import *
from topologies.spark.workers.processes import OFFSPRING

first = OFFSPRING.start(["sleep", "600"], stdout=subprocess.DEVNULL)
reaper = reaper_of(os.getpid())
os.kill(reaper, signal.SIGKILL)
await_end(reaper)
second = OFFSPRING.start(["sleep", "600"], stdout=subprocess.DEVNULL)
print(first.pid, second.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


FORKING = """
import os
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt

class Forking(Bolt):
    outputs = "number long"

    def execute(self, row):
        os.fork()
        return {"number": row["number"]}

builder = TopologyBuilder("forking")
builder.set_spout("numbers", spouts.memory("number long", [(1,), (2,)]))
builder.set_bolt("forking", Forking()).shuffle_grouping("numbers")
builder.set_sink("out", sinks.console()).from_("forking")
print(run_local(builder.build()).rows, flush=True)
"""


def test_a_child_that_a_bolt_forks_is_no_second_driver() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines()[-1:] == ["2"], done.stderr
    assert done.stdout.count("number=") == 2


def test_workers_do_not_hear_an_interrupt(pool: WorkerPool) -> None:
    assert pool.map(interrupted, [1], context()) == [1]
    assert all(os.getpgid(worker.process.pid) != os.getpgid(0) for worker in pool._workers)


def interrupted(item: int, context: Context) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return item

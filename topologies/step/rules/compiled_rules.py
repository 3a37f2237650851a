"""Makes modules of files of rules: compiled from their text, wherever it came from."""

from __future__ import annotations

import hashlib
import linecache
import os
import sys
import threading
from types import ModuleType

from windowing.errors import ConfigError

_LOADED: dict[tuple[str, str], ModuleType] = {}
_LOADING = threading.RLock()


def module_of(file: str, source: str) -> ModuleType:
    """The module of a file of rules, run once per process; the file itself need not exist.

    Tracebacks show its lines nevertheless. Its folder, if it exists, is appended to ``sys.path``: a file of rules may
    import its neighbours, but none of them hides an installed module. Raises ConfigError for a file that cannot be
    compiled or run.
    """
    loaded = _LOADED.get((file, source))
    if loaded is not None:
        return loaded
    with _LOADING:
        if (file, source) not in _LOADED:
            _LOADED[file, source] = _run(file, source)
        return _LOADED[file, source]


def line_in(error: BaseException, file: str) -> int | None:
    """The line of a file at which an exception was raised: the innermost in its traceback."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    return line


def error_on_one_line(error: BaseException) -> str:
    """An exception on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text fails as well"
    name = type(error).__name__
    return f"{name}: {text:.300}" if text else name


def _run(file: str, source: str) -> ModuleType:
    stem = os.path.splitext(os.path.basename(file))[0]
    digest = hashlib.sha256("\0".join((file, source)).encode(errors="replace")).hexdigest()
    name = f"windbolt_rule_{stem}_{digest[:12]}"
    module = ModuleType(name)
    module.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    folder = os.path.dirname(file)
    if folder not in sys.path and os.path.isdir(folder):
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise broken(file, error) from error
    return module


def broken(file: str, error: BaseException) -> ConfigError:
    """The error for a file of rules that cannot be compiled or run."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return ConfigError(
            f"{file}, line {error.lineno}: this is not valid Python",
            why=f"{type(error).__name__}: {error.msg}",
            do="fix it",
        )
    do = "fix it, then try again"
    if isinstance(error, ModuleNotFoundError):
        do = "install it, or put it beside the rules, where Spark's workers run too (--py-files)"
    return ConfigError(
        f"{file}, line {line_in(error, file)}: the rules cannot be loaded", why=error_on_one_line(error), do=do
    )

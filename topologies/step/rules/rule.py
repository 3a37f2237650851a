"""A rule of the aggregation step: a function that can be found again in every process, and is called under a time
limit."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from topologies.engine.failures.limit import TooLong, call, in_call
from topologies.step.rules.compiled_rules import error_on_one_line, line_in, module_of
from topologies.step.rules.outputs import collected
from topologies.step.rules.rule_errors import RuleError
from windowing.errors import ConfigError, WindboltError

Kind = Literal["key", "trigger", "time", "dsl"]
LIMIT_SECONDS = 5.0

Converted = TypeVar("Converted")


@dataclass(frozen=True)
class Rule:
    """A function of a file or a module, created by ``load_rule``.

    It can be sent to other processes: for a rule of a file, the file's text is sent along, so that the file need not
    exist there. What the file imports must exist: neighbours of the file are found in its folder, that is on the
    machine where the rule was loaded; for the workers of a cluster, pass them to Spark (``--py-files``) or install
    them.
    """

    kind: Kind
    place: str
    """The path of the file, or the name of the module."""
    name: str
    """The name of the function."""
    source: str | None = None
    """The text of the file; None for a module."""
    limit_seconds: float = LIMIT_SECONDS
    """Maximum duration of a call. A call into C, such as ``time.sleep``, is interrupted only when it returns."""

    def __post_init__(self) -> None:
        limit = self.limit_seconds
        if not isinstance(limit, (int, float)) or isinstance(limit, bool) or not 0 < limit < float("inf"):
            raise ConfigError(
                f"limit_seconds={limit!r}", why="a call needs a limit above zero", do="give seconds, such as 5"
            )
        object.__setattr__(self, "_function", None)

    def __reduce__(self) -> tuple[type[Rule], tuple[Any, ...]]:
        return Rule, (self.kind, self.place, self.name, self.source, self.limit_seconds)

    def __str__(self) -> str:
        return f"{self.kind} rule {self.place}:{self.name}"

    def __call__(self, *arguments: Any) -> Any:
        """Call the function and return its result; a generator of an aggregation rule is collected.

        Raises RuleError for whatever it raises except KeyboardInterrupt, and if it takes too long; ConfigError if it
        cannot be found in this process.
        """
        function = self._function or self._found()  # type: ignore[attr-defined]
        try:
            return call(function, arguments, self.limit_seconds)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or (isinstance(error, TooLong) and in_call()):
                raise
            raise self._failed(error) from error

    def converted(self, convert: Callable[..., Converted], *arguments: Any) -> Converted:
        """What a function makes of a result of the rule. Raises RuleError for whatever that raises: an object may run
        its own code there."""
        try:
            return convert(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.blame(error) from error

    @property
    def file(self) -> str:
        """The file that the function is in."""
        return self.place if self.source is not None else str(getattr(self._module(), "__file__", self.place))

    def blame(self, error: BaseException) -> RuleError:
        """The error for an invalid result of the rule, with its file and the line in which it begins."""
        place = self._place(None)
        reason = str(error) if isinstance(error, WindboltError) else self._reason(error)
        return RuleError(f"{place}: {reason}", brief=f"{place}: {type(error).__name__}")

    def _place(self, line: int | None) -> str:
        if line is None:
            code = getattr(getattr(self._module(), self.name, None), "__code__", None)
            line = code.co_firstlineno if code is not None and code.co_filename == self.file else None
        return f"{self}, line {line}" if line else str(self)

    def _module(self) -> Any:
        if self.source is not None:
            return module_of(self.place, self.source)
        try:
            return importlib.import_module(self.place)
        except Exception as error:
            raise ConfigError(
                f"{self} cannot be imported",
                why=error_on_one_line(error),
                do="install its module wherever the rule is called",
            ) from error

    def _found(self) -> Callable[..., Any]:
        function: Callable[..., Any] | None = getattr(self._module(), self.name, None)
        if function is None:
            raise ConfigError(f"{self}: there is no {self.name!r}", do="install the same version on every machine")
        if self.kind == "dsl":
            function = _collecting(function)
        object.__setattr__(self, "_function", function)
        return function

    def _failed(self, error: BaseException) -> RuleError:
        line, cause = line_in(error, self.file), error
        while line is None and isinstance(cause, TooLong) and cause.__context__ is not None:
            # Raised again on its way here.
            cause = cause.__context__
            line = line_in(cause, self.file)
        place = self._place(line)
        if isinstance(error, TooLong):
            long = f"{place}: it took more than {self.limit_seconds:g} s"
            return RuleError(long, do="fix its loop, or raise the limit", brief=long)
        return RuleError(f"{place}: {self._reason(error)}", brief=f"{place}: {type(error).__name__}")

    def _reason(self, error: BaseException) -> str:
        try:
            return str(call(error_on_one_line, (error,), self.limit_seconds))
        except KeyboardInterrupt:
            raise
        except BaseException:
            return type(error).__name__


def _collecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an aggregation, with generators collected under its limit."""

    def collecting(events: Any, call: Any) -> Any:
        returned = function(events, call)
        if isinstance(returned, Iterator):
            returned = collected(returned)
        if isinstance(call.out, Iterator):
            call.out = list(call.out)
        return returned

    return collecting

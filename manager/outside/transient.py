"""Whether a failure may pass by itself: the one place that judges the errors of Python, Arrow, obstore and Java.

What is judged is the type of an error, and within a type the number or the name that says what happened. An error that
is not known here does not pass: to start again after a defect would only repeat it.
"""

from __future__ import annotations

import errno
import re
import socket

from windowing.errors import BoltError, CheckpointError, StorageError, WindboltError

_NUMBERS = frozenset(
    {
        errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED,
        errno.EPIPE, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET,
        errno.EINTR, errno.EAGAIN, errno.EBUSY,
    }
)  # fmt: skip
"""The system's numbers of errors that pass: those of networks, and of what is busy. A disk that is full, read-only or
broken waits for a person."""
_STATUS = r"(?:408|429|5\d\d)"
"""The HTTP statuses of a server that is asked too much, or in trouble."""
_ARROW = re.compile(
    r"AWS Error (?:INTERNAL_FAILURE|SERVICE_UNAVAILABLE|THROTTLING|SLOW_DOWN|REQUEST_TIME(?:D_)?OUT|NETWORK_CONNECTION"
    rf"|REQUEST_EXPIRED|UNKNOWN \(HTTP status {_STATUS}\))"
    r"|google::cloud::Status\((?:UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED|INTERNAL)\b"
    rf"|\b{_STATUS} (?:Server Busy|Service Unavailable|Operation could not be completed)"
)
"""What Arrow's file systems of stores say, which have no numbers: the SDKs' own names of errors."""
_OBSTORE = re.compile(rf"non-2xx status code: {_STATUS}\b|HTTP error: ")
"""What obstore says after its own retries: a status, or that there was no answer."""
_WEB_CLIENTS = frozenset({"urllib", "urllib3", "requests", "httpx", "httpcore", "aiohttp"})
_NO_ANSWER = re.compile(r"Timeout|Connect(?:ion|or)?Error|RemoteProtocol|Disconnected|NameResol|NewConn")
"""In the names of the classes of their errors where there was no answer."""
_JAVA = re.compile(
    r"\bjava\.net\.(?:ConnectException|SocketTimeoutException|SocketException|NoRouteToHostException"
    r"|UnknownHostException|PortUnreachableException)\b"
    r"|\bjava\.util\.concurrent\.TimeoutException\b"
    r"|\borg\.apache\.http\.(?:NoHttpResponseException|conn\.\w*Timeout\w*)\b"
    r"|\borg\.apache\.hadoop\.net\.ConnectTimeoutException\b"
    r"|\borg\.apache\.hadoop\.ipc\.(?:RetriableException|StandbyException)\b"
    r"|\borg\.apache\.hadoop\.fs\.s3a\.(?:AWSServiceThrottledException|AWSStatus500Exception)\b"
    rf"|\bStatus Code: {_STATUS}\b"
    r"|\borg\.apache\.kafka\.common\.errors\.(?:\w*TimeoutException|DisconnectException|NetworkException"
    r"|BrokerNotAvailableException|LeaderNotAvailableException|NotLeaderOrFollowerException"
    r"|CoordinatorNotAvailableException|NotEnoughReplicas\w*)\b"
    r"|\bExecutorLostFailure\b|\bExecutorDeadException\b|\bFetchFailed\w*\b"
    r"|\bSparkContext was shut down\b|\bPython worker exited unexpectedly\b"
    r"|\bAll masters are unresponsive\b"
)
"""The classes of Java's, Hadoop's, Kafka's and Spark's errors that pass, as they stand in the text of an error."""


def is_transient(error: BaseException | None) -> bool:
    """Whether an error may pass by itself: its own kind says so, or that of an error that it was raised from."""
    while error is not None:
        if isinstance(error, WindboltError):
            return error.transient
        if _passes(error):
            return True
        error = error.__cause__
    return False


_OF_VALUES = frozenset({errno.EINVAL, errno.EDOM, errno.ERANGE, errno.EOVERFLOW, errno.EILSEQ})
"""The system's numbers of errors about what it was given: ``datetime.fromtimestamp(2**56)`` raises the fourth."""


def is_of_events(error: BaseException | None) -> bool:
    """Whether events may have caused an error of users' code, so that another try would raise it again for them alone.

    Not what may pass, a lack of memory, what the system says of files, networks and processes, and what is wrong with
    the code whatever the events are: a module or a name that there is not. The same holds for what it was raised from.
    An OSError without a number is what decompressors raise about bytes, unless it is of a library's own class.
    """
    if is_transient(error):
        return False
    while error is not None:
        if isinstance(error, WindboltError):  # it has judged already what it was raised from
            return not isinstance(error, BoltError | CheckpointError | StorageError)
        if not _of_events(error):
            return False
        error = error.__cause__
    return True


def _of_events(error: BaseException) -> bool:
    if isinstance(error, OSError):
        own = type(error).__module__ not in ("builtins", "gzip")
        return error.errno in _OF_VALUES or (error.errno is None and not own)
    if isinstance(error, NameError):
        return isinstance(error, UnboundLocalError)  # after a loop over a list that is empty in this event
    return isinstance(error, Exception) and not isinstance(error, MemoryError | ImportError)


def passes_in_java(text: str) -> bool:
    """Whether the long text of a Java error names a class of errors that pass."""
    return _JAVA.search(text) is not None


def _passes_on_the_web(error: BaseException) -> bool:
    """The same for an error of a client of HTTP: by the status of the answer, or that there was none."""
    answer = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(answer, "status_code", None) or getattr(error, "status", None)
    if isinstance(status, int):
        return re.fullmatch(_STATUS, str(status)) is not None
    reason = getattr(error, "reason", None)  # what urllib was told by the system
    if isinstance(reason, Exception):
        return isinstance(reason, socket.gaierror) or _passes(reason)
    names = [kind.__name__ for kind in type(error).__mro__]
    return "SSLError" not in names and any(map(_NO_ANSWER.search, names))


def _passes(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):  # also those that users' code raises
        return True
    if type(error).__module__.partition(".")[0] in _WEB_CLIENTS:
        return _passes_on_the_web(error)
    if isinstance(error, OSError):
        return error.errno in _NUMBERS if error.errno is not None else _ARROW.search(str(error)) is not None
    match type(error).__module__.partition(".")[0]:
        case "obstore":
            return _OBSTORE.search(str(error).split("\n", 1)[0]) is not None
        case "py4j" | "pyspark":
            return passes_in_java(str(error))
    return False

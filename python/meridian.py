"""Annotates a Python program, controls its profiling and reads counters. Calls libmeridian.so through ctypes.

    import meridian

    with meridian.scope("forward", domain="train", step=3):
        ...

    @meridian.traced
    def load_batch(): ...

    loss = meridian.Counter("loss", domain="train")
    loss.sample(0.25)

The library is the file that MERIDIAN_LIBRARY names. If the variable is not set, the module uses a library that is already
loaded (LD_PRELOAD), then libmeridian.so on the loader's path, then libmeridian.so in the directory of this file. If none
exists, annotations and control functions do nothing and raise no error. meridian.available() then returns False, and
meridian.require() warns once with the reason.

meridian.open("profile") reads a profile's tables (meridian_data.py): rows, shipped queries, pictures.

Times are in nanoseconds and timeouts in seconds. Names may be any text. The module needs Python 3.8 or later and no other
package.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import threading
import warnings

TYPE_CHECKING = False  # type checkers treat this as True; other programs do not spend time on these imports
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, List, Optional, Sequence, Type, TypeVar, Union

    from meridian_data import Profile

    _F = TypeVar("_F", bound=Callable[..., Any])
    _Timed = TypeVar("_Timed", bound="_Duration")
    _Number = Union[int, float]
    _Where = Union["Domain", str, None]

__all__ = [
    "available", "require", "version", "status", "lost", "scope", "traced", "push", "pop", "instant",
    "span", "flow", "thread_name", "Domain", "Task", "Frame", "Event", "Counter", "Marker", "Region",
    "set_config", "set_state", "run", "stop", "pause", "resume", "dump", "dumps", "profiling", "Counters", "Models",
    "MeridianError", "open", "THREAD", "PROCESS", "GLOBAL", "TASK",
]

THREAD, PROCESS, GLOBAL, TASK = 0, 1, 2, 3

_INVALID = 6  # MERIDIAN_INVALID
_I64, _U64, _F64, _BOOL, _TEXT = 1, 2, 3, 4, 5
_GATE_ANNOTATIONS = 4
_COROUTINE = 0x80  # inspect.CO_COROUTINE; the module inspect is not imported, because a program may have its own inspect.py


class MeridianError(RuntimeError):
    """Raised if a call of the library fails. `code` is the MERIDIAN_ error code of meridian.h."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Value(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("u", ctypes.c_uint64), ("d", ctypes.c_double),
                ("text", ctypes.c_char_p)]


class _Kv(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_int), ("v", _Value)]


class _Region(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("entries", ctypes.c_uint64), ("total_ns", ctypes.c_uint64),
                ("running", ctypes.c_uint64), ("id", ctypes.c_uint32), ("owned", ctypes.c_uint32)]


class _Scope(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint64), ("opaque", ctypes.c_uint64 * 7)]


class _CounterNumber(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double)]


class _CounterValue(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("is_double", ctypes.c_int), ("valid", ctypes.c_int),
                ("raw_ns", ctypes.c_int64), ("value", _CounterNumber)]


class _ModelRecord(ctypes.Structure):
    _fields_ = [("uri", ctypes.c_char_p), ("sha256", ctypes.c_char_p), ("model_id", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("vnc", ctypes.c_int32), ("vnc_count", ctypes.c_int32),
                ("load_ns", ctypes.c_int64), ("unload_ns", ctypes.c_int64), ("data", ctypes.c_void_p),
                ("data_size", ctypes.c_uint64), ("load_number", ctypes.c_uint64)]


class _ModelList(ctypes.Structure):
    _fields_ = [("records", ctypes.POINTER(_ModelRecord)), ("count", ctypes.c_size_t),
                ("userdata", ctypes.c_uint64)]


_P, _T, _I, _U, _Z = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t
_KV = ctypes.POINTER(_Kv)
_REGION, _SCOPE = ctypes.POINTER(_Region), ctypes.POINTER(_Scope)

# the used functions of the library: name: (type of the result, types of the arguments)
_FUNCTIONS = {
    "mrd_error_text": (_T, [ctypes.c_int]), "mrd_last_error": (_T, []), "mrd_version": (_T, []),
    "mrd_status_text": (_T, []), "mrd_lost": (_U, []), "mrd_free": (None, [_P]),
    "mrd_domain_create": (_P, [_T]), "mrd_push_": (None, [_P, _T]), "mrd_pop_": (None, [_KV, _Z]),
    "mrd_scope_begin_text_": (None, [_SCOPE, _P, _T]), "mrd_scope_end_": (None, [_SCOPE, _KV, _Z]),
    "mrd_instant_": (None, [_P, _T, ctypes.c_int, _KV, _Z]),
    "mrd_span_begin": (_U, [_P, _T, _KV, _Z]), "mrd_span_end": (None, [_U, _KV, _Z]),
    "mrd_memory_allocated_": (None, [_P, _U]), "mrd_memory_freed_": (None, [_P]),
    "mrd_flow_new": (_U, []), "mrd_flow_": (None, [_P, _T, _U, ctypes.c_int]),
    "mrd_thread_name": (None, [_T]),
    "mrd_task_create": (_P, [_P, _T]), "mrd_task_start": (ctypes.c_int, [_P]),
    "mrd_task_stop": (ctypes.c_int, [_P]), "mrd_task_destroy": (None, [_P]),
    "mrd_frame_create": (_P, [_P, _T]), "mrd_frame_start": (ctypes.c_int, [_P]),
    "mrd_frame_stop": (ctypes.c_int, [_P]), "mrd_frame_count": (_U, [_P]),
    "mrd_frame_rate": (ctypes.c_double, [_P]), "mrd_frame_destroy": (None, [_P]),
    "mrd_event_create": (_P, [_T]), "mrd_event_start": (ctypes.c_int, [_P]),
    "mrd_event_stop": (ctypes.c_int, [_P]), "mrd_event_destroy": (None, [_P]),
    "mrd_counter_create": (_P, [_P, _T, _T, _U]), "mrd_counter_set": (ctypes.c_int, [_P, _U]),
    "mrd_counter_add": (ctypes.c_int, [_P, _I]), "mrd_counter_get": (_U, [_P]),
    "mrd_counter_sample": (ctypes.c_int, [_P, ctypes.c_double]), "mrd_counter_destroy": (None, [_P]),
    "mrd_marker_create": (_P, [_P, _T]), "mrd_marker_mark": (ctypes.c_int, [_P, ctypes.c_int]),
    "mrd_marker_destroy": (None, [_P]),
    "mrd_set_config": (ctypes.c_int, [_T, _T]), "mrd_set_state": (ctypes.c_int, [ctypes.c_int]),
    "mrd_pause": (ctypes.c_int, []), "mrd_resume": (ctypes.c_int, []),
    "mrd_dump": (ctypes.c_int, [ctypes.c_int]),
    "mrd_dumps": (ctypes.c_int, [ctypes.c_int, _T, _T, ctypes.c_int, ctypes.POINTER(_P)]),
    "mrd_region_init": (ctypes.c_int, [_REGION, _T]), "mrd_region_release": (ctypes.c_int, [_REGION]),
    "mrd_region_start_": (ctypes.c_int, [_REGION]), "mrd_region_stop_": (ctypes.c_int, [_REGION]),
    "mrd_regions_clear": (ctypes.c_int, [_REGION, _Z]), "mrd_regions_print_to_buf": (_Z, [_P, _Z, _REGION, _Z]),
    "mrd_counters_create": (ctypes.c_int, [ctypes.POINTER(_T), _Z, ctypes.c_int, ctypes.c_int,
                                           ctypes.POINTER(_P)]),
    "mrd_counters_count": (_Z, [_P]), "mrd_counters_start": (ctypes.c_int, [_P, _I]),
    "mrd_counters_poll": (ctypes.c_int, [_P, ctypes.c_int, _I, ctypes.POINTER(_CounterValue), _Z]),
    "mrd_counters_stop": (ctypes.c_int, [_P]), "mrd_counters_destroy": (None, [_P]),
    "mrd_models_create": (ctypes.c_int, [ctypes.c_int, _U, ctypes.POINTER(_P)]),
    "mrd_models_start": (ctypes.c_int, [_P]), "mrd_models_stop": (ctypes.c_int, [_P]),
    "mrd_models_get": (ctypes.c_int, [_P, ctypes.POINTER(_ModelList)]),
    "mrd_models_free": (ctypes.c_int, [_P]),
}


def _candidates():
    named = os.environ.get("MERIDIAN_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    return [None, "libmeridian.so", "libmeridian.so.0", os.path.join(here, "libmeridian.so")]


def _load():
    reason = "libmeridian.so was not found"
    for path in _candidates():
        try:
            lib = ctypes.CDLL(path)
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(lib, name)
                function.restype = result
                function.argtypes = arguments
            return lib, ctypes.c_uint32.in_dll(lib, "mrd_gate"), None
        except OSError as error:
            reason = str(error)
        except (AttributeError, ValueError) as error:
            if path is not None:
                reason = "%s is not the libmeridian.so this module was written for: %s" % (path, error)
    return None, ctypes.c_uint32(0), reason


_lib, _gate, _reason = _load()
_warned = False


def available() -> bool:
    """Returns True if the library was found."""
    return _lib is not None


def require() -> bool:
    """Returns available(). Warns if the library was not found, but only at the first such call."""
    global _warned
    if _lib is None and not _warned:
        _warned = True
        warnings.warn("meridian: annotations do nothing: %s" % _reason, RuntimeWarning, stacklevel=2)
    return _lib is not None


def _text(value):
    return str(value).encode("utf-8", "surrogateescape").replace(b"\0", b" ")


def _check(code):
    if code != 0:
        text = _lib.mrd_last_error() or _lib.mrd_error_text(code)
        raise MeridianError(code, text.decode("utf-8", "replace"))


def _on():
    return _gate.value & _GATE_ANNOTATIONS


def version() -> Optional[str]:
    """Returns the version of the library, or None if the library was not found."""
    return _lib.mrd_version().decode() if _lib else None


def status() -> str:
    """Returns the state of recording: "recording", "paused", "stopped" or "off: <reason>"."""
    return _lib.mrd_status_text().decode("utf-8", "replace") if _lib else "off: " + _reason


def lost() -> int:
    """Returns how many annotations of this process could not be recorded."""
    return _lib.mrd_lost() if _lib else 0


# ---- domains and arguments -----------------------------------------------------------------------

_domains: Dict[str, Any] = {}


class Domain:
    """A group of annotations. Two objects with the same name are the same domain."""

    def __init__(self, name: str) -> None:
        self.name = name

    def task(self, name: str) -> Task:
        return Task(name, self)

    def frame(self, name: str) -> Frame:
        return Frame(name, self)

    def counter(self, name: str, unit: Optional[str] = None, value: int = 0) -> Counter:
        return Counter(name, self, unit, value)

    def marker(self, name: str) -> Marker:
        return Marker(name, self)

    # the names of these functions in MXNet's profiler
    new_task, new_frame, new_marker = task, frame, marker

    def new_counter(self, name: str, value: Optional[int] = None) -> Counter:
        return Counter(self, name, value)


def _name(name):
    """Converts the name of an annotation, which may be any text or number. Refuses objects of this module, because these are arguments in
    the wrong order."""
    if isinstance(name, (Domain, _Object, Region)):
        raise TypeError("a name is text, not a %s of meridian" % type(name).__name__)
    return _text(name)


def _whole(value):
    """Returns the value of a counter as an int. Accepts ints and other integer types, such as those of numpy."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("the value of a counter is a whole number, not %r: sample() records others" % (value,)) from None


def _in_order(name, domain):
    """Returns (name, domain). Swaps them if they were passed in the order of MXNet, as in Task(domain, "name")."""
    return (domain, name) if isinstance(name, Domain) and isinstance(domain, str) else (name, domain)


def _domain(domain):
    if domain is None or _lib is None:
        return None
    name = domain.name if isinstance(domain, Domain) else domain
    handle = _domains.get(name)
    if handle is None:
        handle = _domains[name] = _lib.mrd_domain_create(_name(name))
    return handle


def _arguments(args):
    if not args:
        return None, 0
    array = (_Kv * len(args))()
    for kv, (key, value) in zip(array, args.items()):
        kv.key = _text(key)
        if isinstance(value, bool):
            kv.type, kv.v.u = _BOOL, int(value)
        elif isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            kv.type, kv.v.i = _I64, value
        elif isinstance(value, int) and 0 <= value < 1 << 64:
            kv.type, kv.v.u = _U64, value
        elif isinstance(value, float):
            kv.type, kv.v.d = _F64, value
        else:
            kv.type, kv.v.text = _TEXT, _text(value)
    return array, len(args)


# ---- spans ---------------------------------------------------------------------------------------

def push(name: str, domain: _Where = None) -> None:
    """Begins a span of the calling thread. pop() ends the innermost span that was begun this way."""
    if _on():
        _lib.mrd_push_(_domain(domain), _name(name))


def pop(**args: Any) -> None:
    """Ends the innermost span that this thread began with push(). The keyword arguments become arguments of the span."""
    if _gate.value:
        _lib.mrd_pop_(*_arguments(args))


class scope:
    """Records a span for a block in the calling thread: with scope("name", domain="d", key=value). Blocks of coroutines and generators may
    overlap, and each block ends its own span."""

    __slots__ = ("_name", "_domain", "_args", "_open")

    def __init__(self, name: str, domain: _Where = None, **args: Any) -> None:
        self._name, self._domain, self._args = name, domain, args
        self._open: Any = None  # None, or (the innermost open scope, the same pair for the scopes around it)

    def __enter__(self) -> scope:
        if _on():
            held = _Scope()
            _lib.mrd_scope_begin_text_(held, _domain(self._domain), _name(self._name))
            self._open = held, self._open
        return self

    def set(self, **args: Any) -> None:
        """Adds arguments to the span. Call it while the block runs."""
        self._args = {**self._args, **args}

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._open is not None:
            held, self._open = self._open
            if kind is not None:
                self._args = {**self._args, "exception": kind.__name__}
            _lib.mrd_scope_end_(held, *_arguments(self._args))


def traced(function: Optional[_F] = None, name: Optional[str] = None, domain: _Where = None) -> Any:
    """Decorator that records a span for every call of the function: @traced or @traced(name=..., domain=...). The span of a coroutine
    function lasts until the coroutine returns."""
    if function is None:
        return functools.partial(traced, name=name, domain=domain)
    label = name or function.__qualname__

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if not _on():
            return function(*args, **kwargs)
        with scope(label, domain):
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args, **kwargs):
        with scope(label, domain):
            return await function(*args, **kwargs)

    code = getattr(function, "__code__", None)
    return awaited if code is not None and code.co_flags & _COROUTINE else wrapper


class span:
    """A span that any thread may end: s = span("name"); ...; s.end(key=value)."""

    def __init__(self, name: str, domain: _Where = None, **args: Any) -> None:
        self._id = _lib.mrd_span_begin(_domain(domain), _name(name), *_arguments(args)) if _on() else 0

    def end(self, **args: Any) -> None:
        if self._id:
            _lib.mrd_span_end(self._id, *_arguments(args))
            self._id = 0


_SCOPES = {"thread": THREAD, "process": PROCESS, "global": GLOBAL, "task": TASK, "marker": THREAD}


def _scope(scope):
    """Converts a scope to its number. Accepts THREAD and the other constants, and the names that other profilers use."""
    number = _SCOPES.get(scope, scope)
    if number not in (THREAD, PROCESS, GLOBAL, TASK):
        raise MeridianError(_INVALID, f"scope {scope!r}: global, process, thread, task or marker expected")
    return number


def instant(name: str, domain: _Where = None, scope: Union[int, str] = THREAD, **args: Any) -> None:
    """Records an event without duration. `scope` is THREAD, PROCESS, GLOBAL or TASK, or the name of one of them."""
    if _on():
        _lib.mrd_instant_(_domain(domain), _name(name), _scope(scope), *_arguments(args))


class flow:
    """An arrow between spans: f = flow("name"). Call f.begin() inside one span, and f.step() and f.end() inside others."""

    def __init__(self, name: str, domain: _Where = None) -> None:
        self._name, self._domain = name, domain
        self.id = _lib.mrd_flow_new() if _lib else 0

    def _at(self, where):
        if _on():
            _lib.mrd_flow_(_domain(self._domain), _name(self._name), self.id, where)

    def begin(self) -> None:
        self._at(0)

    def step(self) -> None:
        self._at(1)

    def end(self) -> None:
        self._at(2)


def memory_allocated(memory: int, nbytes: int) -> None:
    """Attributes nbytes of memory to the innermost open span of the calling thread. `memory` is an address or another number from 0 that no
    other live allocation has, such as id() or data_ptr() of an array."""
    if _on():
        _lib.mrd_memory_allocated_(memory, nbytes)


def memory_freed(memory: int) -> None:
    """Reports that the memory with this number was freed. Any thread may call it. The bytes are subtracted from the span that allocated
    them."""
    if _gate.value:
        _lib.mrd_memory_freed_(memory)


def thread_name(name: Optional[str] = None) -> None:
    """Sets the name that timelines show for the calling thread. The default is its name in the module threading."""
    if _on():
        _lib.mrd_thread_name(_text(name or threading.current_thread().name))


# ---- objects --------------------------------------------------------------------------------------

class _Object:
    _create = _destroy = ""

    def __init__(self, *arguments):
        self._handle = getattr(_lib, self._create)(*arguments) if _lib else None
        if _lib and not self._handle:
            raise MeridianError(6, "%s needs a name" % type(self).__name__)

    def close(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and _lib:
            getattr(_lib, self._destroy)(handle)

    __del__ = close


class _Duration(_Object):
    _start = _stop = ""

    def start(self) -> None:
        if self._handle and _gate.value:
            _check(getattr(_lib, self._start)(self._handle))

    def stop(self) -> None:
        if self._handle and _gate.value:
            _check(getattr(_lib, self._stop)(self._handle))

    def __enter__(self: _Timed) -> _Timed:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()


class Task(_Duration):
    """A span that a thread starts and stops. Starts may be nested. Can be used in a with statement."""
    _create, _destroy, _start, _stop = ("mrd_task_create", "mrd_task_destroy", "mrd_task_start",
                                        "mrd_task_stop")

    def __init__(self, name: Union[str, Domain], domain: _Where = None) -> None:
        name, domain = _in_order(name, domain)
        super().__init__(_domain(domain), _name(name))


class Event(_Duration):
    """The same as a task, but without a domain."""
    _create, _destroy, _start, _stop = ("mrd_event_create", "mrd_event_destroy", "mrd_event_start",
                                        "mrd_event_stop")

    def __init__(self, name: str) -> None:
        super().__init__(_name(name))


class Frame(_Duration):
    """A span of the whole process, such as a step. Only one run of a frame can be open at a time, and the library counts the runs."""
    _create, _destroy, _start, _stop = ("mrd_frame_create", "mrd_frame_destroy", "mrd_frame_start",
                                        "mrd_frame_stop")

    def __init__(self, name: Union[str, Domain], domain: _Where = None) -> None:
        name, domain = _in_order(name, domain)
        super().__init__(_domain(domain), _name(name))

    @property
    def count(self) -> int:
        """The number of completed runs."""
        return _lib.mrd_frame_count(self._handle) if self._handle else 0

    @property
    def rate(self) -> float:
        """The number of completed runs per second, from the first start to the last stop. 0 if unknown."""
        return _lib.mrd_frame_rate(self._handle) if self._handle else 0.0


class Counter(_Object):
    """A value over time. `unit` is "bytes", "percent", "ns", "count" or any other word."""
    _create, _destroy = "mrd_counter_create", "mrd_counter_destroy"

    def __init__(self, name: Union[str, Domain], domain: _Where = None, unit: Union[str, int, None] = None, value: int = 0) -> None:
        first = None
        if isinstance(name, Domain) and unit is not None and not isinstance(unit, str):
            unit, first = None, unit  # called with the arguments of MXNet: Counter(domain, "name", value)
        name, domain = _in_order(name, domain)
        super().__init__(_domain(domain), _name(name), _text(unit) if unit else None, _whole(value))
        if first is not None:
            self.set_value(first)

    @property
    def value(self) -> int:
        """The current value as an unsigned integer. sample() does not change it."""
        return _lib.mrd_counter_get(self._handle) if self._handle else 0

    def set_value(self, value: int) -> None:
        if self._handle:
            _check(_lib.mrd_counter_set(self._handle, _whole(value)))

    def increment(self, delta: int = 1) -> None:
        if self._handle:
            _check(_lib.mrd_counter_add(self._handle, _whole(delta)))

    def decrement(self, delta: int = 1) -> None:
        self.increment(-delta)

    def sample(self, value: _Number) -> None:
        """Records a value that need not be an integer."""
        if self._handle:
            _check(_lib.mrd_counter_sample(self._handle, value))

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.increment(-delta)
        return self


class Marker(_Object):
    """A named instant (an event without duration) that can be recorded many times."""
    _create, _destroy = "mrd_marker_create", "mrd_marker_destroy"

    def __init__(self, name: Union[str, Domain], domain: _Where = None) -> None:
        name, domain = _in_order(name, domain)
        super().__init__(_domain(domain), _name(name))

    def mark(self, scope: Union[int, str] = PROCESS) -> None:
        """Records the instant. `scope` is GLOBAL, PROCESS, THREAD or TASK, or "global", "process", "thread", "task" or "marker"."""
        if self._handle:
            _check(_lib.mrd_marker_mark(self._handle, _scope(scope)))


class Region:
    """A section of code with its own total time and count. Starts may be nested and may come from several threads. Can be used in a with
    statement."""

    def __init__(self, name: str) -> None:
        self._region = _Region()
        if _lib:
            _check(_lib.mrd_region_init(ctypes.byref(self._region), _name(name)))

    def start(self) -> None:
        if _on():
            _check(_lib.mrd_region_start_(ctypes.byref(self._region)))

    def stop(self) -> None:
        if _gate.value:
            _check(_lib.mrd_region_stop_(ctypes.byref(self._region)))

    def __enter__(self) -> Region:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()

    def clear(self) -> None:
        """Resets total_ns and entries to 0."""
        if _lib:
            _check(_lib.mrd_regions_clear(ctypes.byref(self._region), 1))

    @property
    def entries(self) -> int:
        """The number of starts."""
        return self._region.entries

    @property
    def total_ns(self) -> int:
        """The total time of all runs in nanoseconds."""
        return self._region.total_ns

    def __str__(self) -> str:
        """Returns the line that mrd_region_print prints, without the newline."""
        if _lib is None:
            return ""
        size = _lib.mrd_regions_print_to_buf(None, 0, ctypes.byref(self._region), 1)
        buffer = ctypes.create_string_buffer(size + 1)
        _lib.mrd_regions_print_to_buf(buffer, size + 1, ctypes.byref(self._region), 1)
        return buffer.value.decode("utf-8", "replace").rstrip("\n")

    def __del__(self):
        if _lib and getattr(self, "_region", None) is not None:
            _lib.mrd_region_release(ctypes.byref(self._region))


# ---- control --------------------------------------------------------------------------------------

def set_config(**keys: Union[bool, int, float, str]) -> None:
    """Sets keys of the configuration, as in set_config(filename="x.json"). The keys are filename, profile_all, profile_symbolic,
    profile_imperative, profile_memory, profile_api, continuous_dump, dump_period, aggregate_stats and profile_process."""
    if _lib:
        for key, value in keys.items():
            _check(_lib.mrd_set_config(_text(key), _text(int(value) if isinstance(value, bool) else value)))


def run() -> None:
    """Starts recording. Warns if the calls of a loaded Neuron runtime cannot be recorded. status() then gives the reason."""
    if _lib:
        _check(_lib.mrd_set_state(1))
        if status().startswith("recording, but "):
            warnings.warn("meridian: " + status(), RuntimeWarning, stacklevel=2)


def stop() -> None:
    """Stops recording."""
    if _lib:
        _check(_lib.mrd_set_state(0))


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Starts ("run") or stops ("stop") recording, with the words of MXNet's profiler. profile_process must be "worker", because the library
    controls only its own process."""
    if state not in ("run", "stop"):
        raise MeridianError(_INVALID, f"state {state!r}: run or stop expected")
    set_config(profile_process=profile_process)
    (run if state == "run" else stop)()


def pause() -> None:
    """Pauses recording until resume()."""
    if _lib:
        _check(_lib.mrd_pause())


def resume() -> None:
    """Continues recording after pause()."""
    if _lib:
        _check(_lib.mrd_resume())


def dump(finished: bool = True) -> None:
    """Writes the recorded events to the file that set_config(filename=...) names. If `finished` is true, closes the file."""
    if _lib:
        _check(_lib.mrd_dump(int(finished)))


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """Returns statistics for each name as text, or "" if the library was not found."""
    if _lib is None:
        return ""
    text = _P()
    _check(_lib.mrd_dumps(int(reset), _text(format), _text(sort_by), int(ascending), ctypes.byref(text)))
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        _lib.mrd_free(text)


class profiling:
    """Records while a block runs: with profiling(aggregate_stats=True). The arguments are keys of set_config()."""

    def __init__(self, **config: Union[bool, int, float, str]) -> None:
        self._config = config

    def __enter__(self) -> profiling:
        set_config(**self._config)
        run()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        stop()


# ---- counters of the machine, loaded models ---------------------------------------------------------

class Counters:
    """Reads hardware and system counters: with Counters(["cpu.*", ...]) as c. c.poll() returns {name: value or None}."""

    def __init__(self, names: Sequence[str], device: int = -1, core: int = -1) -> None:
        self._handle = _P()
        if _lib is None:
            raise MeridianError(15, "no counters without the library: " + _reason)
        array = (_T * len(names))(*[_text(name) for name in names])
        _check(_lib.mrd_counters_create(array, len(names), device, core, ctypes.byref(self._handle)))

    def start(self, timeout: float = 1.0) -> None:
        """Starts counting. `timeout` is the maximum time in seconds to wait for the device."""
        _check(_lib.mrd_counters_start(self._handle, int(timeout * 1e9)))

    def poll(self, since_start: bool = False, timeout: float = 1.0) -> Dict[str, Union[int, float, None]]:
        """Returns the current values of all counters or, after stop(), the values that stop() read. With since_start, counters that only grow
        have their growth since start(). None means that a counter has no value. `timeout` is in seconds."""
        count = _lib.mrd_counters_count(self._handle)
        values = (_CounterValue * count)()
        _check(_lib.mrd_counters_poll(self._handle, int(since_start), int(timeout * 1e9), values, count))
        return {v.name.decode(): (v.value.d if v.is_double else v.value.i) if v.valid else None
                for v in values}

    def stop(self) -> None:
        """Reads all counters a last time. poll() returns these values until the next start()."""
        _check(_lib.mrd_counters_stop(self._handle))

    def close(self) -> None:
        if self._handle:
            _lib.mrd_counters_destroy(self._handle)
            self._handle = _P()

    def __enter__(self) -> Counters:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()


class Models:
    """Records which models are loaded while a block runs: with Models() as m. m.records() returns the loads."""

    SYMBOLS, MEMORY, ALL = 0, 1, 2

    def __init__(self, mode: int = SYMBOLS, userdata: int = 0) -> None:
        self._handle = _P()
        if _lib is None:
            raise MeridianError(15, "no model capture without the library: " + _reason)
        _check(_lib.mrd_models_create(mode, userdata, ctypes.byref(self._handle)))

    def start(self) -> None:
        _check(_lib.mrd_models_start(self._handle))

    def stop(self) -> None:
        _check(_lib.mrd_models_stop(self._handle))

    def records(self) -> List[Dict[str, Any]]:
        """Returns a dict for each load. load_ns and unload_ns are in nanoseconds. unload_ns is None if the model is still loaded."""
        found = _ModelList()
        _check(_lib.mrd_models_get(self._handle, ctypes.byref(found)))
        return [{"uri": r.uri.decode("utf-8", "replace"), "sha256": r.sha256.decode(),
                 "model_id": r.model_id, "load_number": r.load_number, "size": r.size, "vnc": r.vnc, "vnc_count": r.vnc_count,
                 "load_ns": r.load_ns, "unload_ns": r.unload_ns or None,
                 "data": ctypes.string_at(r.data, r.data_size) if r.data else None}
                for r in found.records[:found.count]]

    def close(self) -> None:
        if self._handle:
            _lib.mrd_models_free(self._handle)
            self._handle = _P()

    def __enter__(self) -> Models:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


def open(where: str, *, token: Optional[str] = None, start: Optional[str] = None, end: Optional[str] = None,  # noqa: A001: meridian.open reads well
         instance_id: Optional[str] = None, process_id: Union[str, int, None] = None, lnc_idx: Union[str, int, None] = None,
         event_type: Optional[str] = None) -> Profile:
    """Opens the tables of a profile. `where` is a profile.sqlite, a directory with profile.sqlite or tables/, or the URL of a session on an
    aggregator. The other arguments select a part of such a session. See meridian_data.open_profile."""
    import meridian_data
    return meridian_data.open_profile(where, token=token, start=start, end=end, instance_id=instance_id, process_id=process_id, lnc_idx=lnc_idx, event_type=event_type)

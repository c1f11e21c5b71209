"""Starts ironic-python-agent inside the deploy ramdisk, quickly.

Compiling regular expressions is a large part of the agent's start on a slow processor, so they are compiled when the
image is built (`--record FILE`) and looked up at boot. Python is run with -I -S: no site, no user paths.
"""

from __future__ import annotations

import ctypes.util
import functools
import gc
import importlib
import logging
import marshal
import os
import pkgutil
import re
import subprocess
import sys
from typing import Any

AGENT = "/opt/ipa"
PATTERNS = "/opt/patterns.marshal"
LIBRARIES = {"udev": "libudev.so.1", "c": "libc.so.6"}
# Modules the agent imports late, with patterns of their own.
LATE = (
    "cheroot.wsgi", "cheroot.ssl.builtin", "zeroconf", "cryptography.x509", "yaml", "oslo_log.formatters",
    "email.parser", "logging.config",
)  # fmt: skip

_compiler: Any = re._compiler  # type: ignore[attr-defined]


def say(message: str) -> None:
    try:
        with open("/proc/uptime") as clock, open("/dev/kmsg", "w") as log:
            log.write(f"<4>[deploy {clock.read().split()[0]}] {message}\n")
    except OSError:
        pass


def find_libraries_without_ldconfig() -> None:
    """pyudev asks ctypes for libudev, which asks ldconfig and gcc; the ramdisk has neither."""
    asked = ctypes.util.find_library

    def find_library(name: str) -> str | None:
        return LIBRARIES.get(name) or asked(name)

    ctypes.util.find_library = find_library


def use_compiled_patterns() -> None:
    import _sre  # type: ignore[import-not-found]

    compile_now = _compiler.compile
    try:
        with open(PATTERNS, "rb") as source:
            known = marshal.load(source)
    except (OSError, ValueError, EOFError):
        return

    def compile(pattern: Any, flags: int = 0) -> Any:
        try:
            compiled = known.get((pattern, int(flags)))
        except TypeError:  # not hashable
            compiled = None
        return _sre.compile(pattern, *compiled) if compiled else compile_now(pattern, flags)

    _compiler.compile = compile


def record_patterns(target: str) -> None:
    """Import everything the agent may import, and write down every pattern that was compiled."""
    compile_now = _compiler.compile
    known: dict[tuple[Any, int], Any] = {}

    def compile(pattern: Any, flags: int = 0) -> Any:
        if isinstance(pattern, str | bytes) and not flags & re.DEBUG:
            parsed = _compiler._parser.parse(pattern, flags)
            code = [int(word) for word in _compiler._code(parsed, flags)]
            names = dict(parsed.state.groupdict)
            by_index: list[str | None] = [None] * parsed.state.groups
            for name, index in names.items():
                by_index[index] = name
            known[pattern, int(flags)] = (
                int(flags | parsed.state.flags), code, parsed.state.groups - 1, names, tuple(by_index),
            )  # fmt: skip
        return compile_now(pattern, flags)

    _compiler.compile = compile
    import ironic_python_agent  # type: ignore[import-not-found]

    for module in pkgutil.walk_packages(ironic_python_agent.__path__, "ironic_python_agent."):
        if ".tests" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError:  # a plug-in for something the ramdisk does not have
                continue
    for name in LATE:
        importlib.import_module(name)
    importlib.import_module("pint").UnitRegistry()
    with open(target, "wb") as sink:
        marshal.dump(known, sink)


def tell_at_once_and_keep_tokens() -> None:
    """What is done is told within a second, not five: there is no herd of agents here. Requests, which carry the agent's
    token in their address, do not go to the console."""
    from ironic_python_agent.agent import IronicPythonAgentHeartbeater  # type: ignore[import-not-found]

    IronicPythonAgentHeartbeater.min_heartbeat_interval = 1
    logging.getLogger("ironic_python_agent.api").addFilter(lambda record: record.levelno > logging.INFO)


def start_programs_without_fork() -> None:
    """The agent runs a hundred small programs. With a function to call in the child, Python has to fork, and copying the
    page tables of so large a process takes an emulated server longer than the program; all that function does is to
    restore SIGPIPE, which `restore_signals` does by itself."""
    from oslo_concurrency import processutils  # type: ignore[import-not-found]

    begin = subprocess.Popen.__init__

    def begin_without_fork(self: Any, *args: Any, **kwargs: Any) -> None:
        called = kwargs.get("preexec_fn")
        if isinstance(called, functools.partial) and called.func is processutils._subprocess_setup:
            if called.args == (None,):
                del kwargs["preexec_fn"]
        begin(self, *args, **kwargs)

    subprocess.Popen.__init__ = begin_without_fork  # type: ignore[method-assign]


def main() -> None:
    sys.path.insert(0, AGENT)
    find_libraries_without_ldconfig()
    if sys.argv[1:2] == ["--record"]:
        record_patterns(sys.argv[2])
        return
    use_compiled_patterns()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.disable()  # nothing of what is imported is ever garbage
    from ironic_python_agent.cmd.agent import run  # type: ignore[import-not-found]

    gc.freeze()
    gc.enable()

    say("ironic-python-agent loaded")
    tell_at_once_and_keep_tokens()
    start_programs_without_fork()
    run()


main()

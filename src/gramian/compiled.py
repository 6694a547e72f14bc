"""Functions compiled by numba and cached on disk; in memory only where nothing can be written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from gramian.progress import announce, compiling

with compiling:
    from numba import njit
    from numba.core import event
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.runtime.nrt import rtsys
    from numba.extending import intrinsic


class _Stopwatch(event.Listener):
    """Stops the clocks behind ``max_time`` while numba loads or compiles a function."""

    def on_start(self, event: Any) -> None:
        compiling.__enter__()

    def on_end(self, event: Any) -> None:
        compiling.__exit__()


class _Announcer(event.Listener):
    """Announces, once, that functions of this package are being compiled, and counts them."""

    compiled = 0

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("gramian."):
            self.compiled += 1
            _announce_compiling()

    def on_end(self, event: Any) -> None:
        pass


ANNOUNCER = _Announcer()
event.register("numba:compiler_lock", _Stopwatch())  # type: ignore[no-untyped-call]
event.register("numba:compile", ANNOUNCER)  # type: ignore[no-untyped-call]


def compiled(**options: Any) -> Callable[[Any], Any]:
    """``numba.njit`` with a cache on disk, or without one where neither the package nor the home can be written to."""

    def decorate(function: Any) -> Any:
        try:
            made = njit(cache=True, **options)(function)
            made._cache.save_overload = _forgiving(made._cache.save_overload)
            made._cache.load_overload = _quick_load(made._cache)
        except RuntimeError as error:  # numba's "cannot cache function ...: no locator available"
            if "cannot cache" not in str(error):
                raise
            _warn_of_no_cache()
            made = njit(**options)(function)
        return made

    return decorate


def part(**options: Any) -> Callable[[Any], Any]:
    """``numba.njit`` for functions that only compiled functions call: cached with their caller, not callable here."""
    without: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # missing in numba's own types
    return njit(nogil=True, error_model="numpy", pipeline_class=_PartCompiler, **without, **options)


class _PartLibrary(JITCodeLibrary):
    """Code that is optimised and translated only within its callers; numba would do both at every level of calls."""

    codegen = SimpleNamespace(set_env=lambda name, environment: None)  # Only code that calls Python has an environment

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class _PartCompiler(Compiler):
    def define_pipelines(self) -> Any:
        library: Any = _PartLibrary
        self.state.library = library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()  # type: ignore[no-untyped-call]


def _quick_load(cache: Any) -> Callable[[Any, Any], Any]:
    """Load machine code from the cache without numba's registries of Python and NumPy functions.

    Only compiling needs these, and loads them itself; importing them takes 0.2 s.
    """

    def load(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, context)

    return load


def _larger(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, numbers: Any) -> Any:
        flags = "nnan", "nsz"
        return builder.select(builder.fcmp_ordered(">", *numbers, flags=flags), *numbers, flags=flags)

    return a(a, a), generate


larger: Any = intrinsic(_larger)
"""In compiled code, the larger of two numbers of one type, neither of them NaN.

A loop of such maxima vectorises. With ``max`` it does not: numba makes a branch of it, and LLVM has to care for NaN.
"""


def _forgiving(save: Callable[..., None]) -> Callable[..., None]:
    """``save``, except that on an error such as a full disk the compiled function stays in memory."""

    def attempt(*what: Any) -> None:
        try:
            save(*what)
        except OSError:
            _warn_of_no_cache()

    return attempt


@cache
def _announce_compiling() -> None:
    text = "compiling once for this machine, about 5 s; `gramian warmup` does it beforehand"
    logging.getLogger("gramian").warning(text)
    announce(text)


@cache
def _warn_of_no_cache() -> None:
    logging.getLogger("gramian").warning(
        "compiled functions cannot be kept on disk, so every process compiles them again (some seconds): neither the "
        "installed package nor the home folder can be written to, or the disk is full. Set NUMBA_CACHE_DIR to a folder "
        "that can be written to."
    )

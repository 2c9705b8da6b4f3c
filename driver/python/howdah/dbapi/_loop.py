"""The event loop of one synchronous connection, which runs on the caller's thread while something needs it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import types
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Optional

_tasks = asyncio.tasks


class Loop(asyncio.SelectorEventLoop):
    """A loop that never starts a thread: what others give to an executor is done at once."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()
        # Whether a function of the program's runs, which Ctrl-C interrupts where it is.
        self._outside = False

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Call `func` now."""
        future = self.create_future()
        try:
            future.set_result(self.call(func, *args))
        except Exception as error:
            future.set_exception(error)
        return future

    def call(self, func: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the program's, which may take its time."""
        self._outside = True
        try:
            return func(*args)
        finally:
            self._outside = False

    def complete(self, awaitable: Awaitable[Any]) -> Any:
        """Run an awaitable to its end; what interrupts that cancels it, and comes through once it has ended."""
        with _no_other_loop():
            task = self.create_task(_as_coroutine(awaitable))
            with self._interrupting(task):
                return self._finish(task)

    def _finish(self, task: asyncio.Task[Any]) -> Any:
        try:
            self._run_to_the_end_of(task)
        except BaseException:
            if not task.done():
                task.cancel()
                self._run_to_the_end_of(self.create_task(_tasks.wait([task])))
            if not task.cancelled():
                task.exception()
            raise
        return task.result()

    def _run_to_the_end_of(self, task: asyncio.Task[Any]) -> None:
        task.add_done_callback(_stop)
        try:
            # An interruption may have left a stop behind, which is not this task's.
            while not task.done():
                self.run_forever()
        finally:
            task.remove_done_callback(_stop)

    @contextlib.contextmanager
    def _interrupting(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Have Ctrl-C cancel a task: raised between a read and its use it would lose bytes."""
        usual = signal.default_int_handler
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not usual:
            yield
            return
        interrupted = False

        def interrupt(number: int, frame: Optional[types.FrameType]) -> None:
            nonlocal interrupted
            if interrupted or self._outside or task.done():
                usual(number, frame)
            interrupted = True
            task.cancel()
            # Or the loop would go on waiting for the network.
            self.call_soon_threadsafe(bool)

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        except BaseException:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            signal.signal(signal.SIGINT, usual)
        if interrupted:
            raise KeyboardInterrupt

    def turn(self) -> None:
        """Do what is due."""
        with _no_other_loop():
            self.call_soon(self.stop)
            self.run_forever()

    def close(self) -> None:
        """Close the loop, unless it is another process's: what watches its sockets is shared with a forked child."""
        if not self.is_elsewhere():
            super().close()

    def is_elsewhere(self) -> bool:
        """Whether the loop is another process's, which has forked this one since."""
        return os.getpid() != self._process

    def __del__(self, *args: Any) -> None:
        # The connection warns for both. One whose making was interrupted is not whole, and has nothing to close.
        with contextlib.suppress(AttributeError):
            if not self.is_closed() and not self.is_running():
                self.close()


def _stop(task: asyncio.Task[Any]) -> None:
    task.get_loop().stop()


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@types.coroutine
def resume(awaitable: Any, future: Any) -> Generator[Any, Any, Any]:
    """Go on with an awaitable that waits for `future`."""
    try:
        yield future
    except BaseException:
        awaitable.close()
        raise
    return (yield from awaitable)


@contextlib.contextmanager
def _no_other_loop() -> Iterator[None]:
    """Hide the loop that runs on this thread, a notebook's for instance, which stands still meanwhile."""
    outer = asyncio._get_running_loop()
    if outer is None:
        yield
        return
    task = asyncio.current_task(outer)
    if task is not None:
        _tasks._leave_task(outer, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
        if task is not None:
            _tasks._enter_task(outer, task)

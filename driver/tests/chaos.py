"""A proxy between the driver and a server that does what networks do at their worst."""

import asyncio
import contextlib


class ChaosProxy:
    """Passes bytes on, by its rules.

    `split`: in pieces of so many bytes. `delay`: each piece so many seconds late. `cut_after`: the connection ends after
    so many bytes from the server. `garble`: from the server, `(offset, bytes)` in place of what comes there.
    """

    def __init__(self, host, port, *, split=None, delay=0.0, cut_after=None, garble=None):
        self.host = host
        self.target_port = port
        self.split = split
        self.delay = delay
        self.cut_after = cut_after
        self.garble = garble
        self.passed = 0
        self.stalled = False
        self._writers = []
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception):
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self):
        """Ends all connections, without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        for task in (
            asyncio.ensure_future(self._pump(reader, far_writer, to_client=False)),
            asyncio.ensure_future(self._pump(far_reader, writer, to_client=True)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, reader, writer, to_client):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if to_client:
                    data = self._spoil(data)
                step = self.split or len(data) or 1
                for start in range(0, len(data), step):
                    while self.stalled:
                        await asyncio.sleep(0.01)
                    # The other direction may have ended both; uvloop refuses bytes for a closed transport.
                    if writer.is_closing():
                        return
                    writer.write(data[start : start + step])
                    await writer.drain()
                    # Lets the other side read what there is so far.
                    await asyncio.sleep(self.delay)
                if to_client:
                    self.passed += len(data)
                    if self.cut_after is not None and self.passed >= self.cut_after:
                        self.cut()
                        return
            writer.close()

    def _spoil(self, data):
        if self.garble is not None:
            offset, garbage = self.garble
            start = offset - self.passed
            if start < len(data) and start + len(garbage) > 0:
                spoilt = bytearray(data)
                for index, byte in enumerate(garbage, start):
                    if 0 <= index < len(spoilt):
                        spoilt[index] = byte
                data = bytes(spoilt)
        if self.cut_after is not None:
            data = data[: max(self.cut_after - self.passed, 0)]
        return data

"""Count requests of any client on the wire, by a relay between the clients and a broker that advertises the relay."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType

from airflow_provider_kafka_spark.testing.ports import LOOPBACK


class RequestCounter:
    """Relays every connection to a broker, and reads the length and the kind of each request.

    :param port: where clients connect to, as the broker advertises it.
    :param broker_port: where the broker listens.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._requests: Counter[int] = Counter()
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> RequestCounter:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._connections

    @property
    def requests(self) -> int:
        """How many have passed so far."""
        return sum(self._requests.values())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._relay, LOOPBACK, self._port, backlog=1024)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _relay(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection(LOOPBACK, self._broker_port)
        except OSError:
            to_client.close()
            return
        self._connections += 1
        try:
            answers = asyncio.ensure_future(self._copy(broker, to_client))
            await self._count(client, to_broker)
            answers.cancel()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections -= 1
            to_broker.close()
            to_client.close()

    async def _count(self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter) -> None:
        while True:
            head = await client.readexactly(4)
            body = await client.readexactly(int.from_bytes(head, "big"))
            self._requests[int.from_bytes(body[:2], "big")] += 1
            to_broker.write(head + body)
            await to_broker.drain()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        # A client that disconnects during an answer is not a failure.
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()

"""A web service with a producer and a consumer that ends cleanly on SIGTERM: nothing lost, nothing twice.

Run it: `python examples/fastapi_service.py`. It brings its own broker, starts the service three times as
`uvicorn fastapi_service:app`, and sends SIGTERM in the middle of its work. It needs the packages fastapi and
uvicorn. To run the service alone: `BOOTSTRAP=127.0.0.1:9092 uvicorn --app-dir examples fastapi_service:app`.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Semaphore

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import klamm
import klamm.aio

# --- the service ---------------------------------------------------------------------------------------


class Order(BaseModel):
    number: int
    customer: str


async def write_invoices(
    consumer: klamm.aio.Consumer, producer: klamm.aio.Producer, stopping: asyncio.Event
) -> None:
    """Read, write, commit: a crash repeats what was not committed, and a clean end repeats nothing."""
    while not stopping.is_set():
        for record in await consumer.poll(0.5):
            await producer.send("invoices", record.value, key=record.key)
        await producer.flush()  # raises if an invoice was not delivered: then its order is not committed
        await consumer.commit()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    bootstrap = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
    stopping = asyncio.Event()
    async with (
        klamm.aio.Producer(bootstrap_servers=bootstrap) as producer,
        klamm.aio.Consumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="invoicing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        task = asyncio.create_task(write_invoices(consumer, producer, stopping))
        app.state.producer, app.state.consumer, app.state.task = producer, consumer, task
        yield  # until SIGTERM has come and the last request is answered
        stopping.set()
        await task  # it completes its records and commits them; if it has failed, the shutdown fails, too
    # The consumer has left its group, and the producer has sent what it had.


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def take_order(order: Order, request: Request) -> dict[str, int]:
    """Answered when the broker has the order: what a caller was told is not lost."""
    producer: klamm.aio.Producer = request.app.state.producer
    place = await producer.send_and_wait("orders", order.model_dump_json(), key=order.customer)
    return {"partition": place.partition, "offset": place.offset}


@app.exception_handler(klamm.KlammError)
async def refuse(_request: Request, error: Exception) -> JSONResponse:
    """The broker has not got the order, or has not said so in time: the caller may try again."""
    return JSONResponse({"error": str(error)}, status_code=503)


@app.get("/health")
async def health(request: Request) -> JSONResponse:
    """A consumer task that has ended shows here: nobody else would notice."""
    state = request.app.state
    problems = [*state.producer.health().problems, *state.consumer.health().problems]
    if state.task.done():
        problems.append("the task that writes invoices has ended")
    return JSONResponse({"problems": problems}, status_code=503 if problems else 200)


# --- what shows that it does so ------------------------------------------------------------------------

ORDERS = 100  # offered to each of two services; each gets SIGTERM when it has answered half of them


@contextmanager
def service(bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service as a process, and its URL; at the end it has ended in its own way."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(Path(__file__).parent)]
    process = subprocess.Popen(
        [*command, "fastapi_service:app", "--port", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"BOOTSTRAP": bootstrap},
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "running on" in line:
            yield process, line.split("running on ")[1].split()[0]
            break
    process.terminate()
    said += process.communicate(timeout=60)[1]
    print("shutdown complete" if "shutdown complete" in said else said)


def offer(url: str, number: int) -> bool:
    """Whether an order was accepted; a service that ends refuses connections."""
    body = json.dumps({"number": number, "customer": f"customer {number % 7}"}).encode()
    request = urllib.request.Request(f"{url}/orders", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bool(answer.status == 202)
    except (urllib.error.URLError, ConnectionError):
        return False


def offer_all(process: subprocess.Popen[str], url: str, numbers: Iterable[int]) -> set[int]:
    """Offer orders from eight threads, with SIGTERM in the middle; those that were accepted."""
    answered = Semaphore(0)

    def one(number: int) -> bool:
        is_accepted = offer(url, number)
        answered.release()
        return is_accepted

    with ThreadPoolExecutor(8) as threads:
        outcomes = {number: threads.submit(one, number) for number in numbers}
        for _ in range(ORDERS // 2):
            answered.acquire()
        process.terminate()
    return {number for number, outcome in outcomes.items() if outcome.result()}


def invoices(bootstrap: str, count: int) -> Counter[int]:
    """The invoices by number of their order: `count` of them, and what else there is."""
    found: Counter[int] = Counter()
    with klamm.Consumer(
        "invoices", bootstrap_servers=bootstrap, group_id="audit", auto_offset_reset="earliest"
    ) as consumer:
        while records := consumer.poll(30 if found.total() < count else 1):
            found.update(json.loads(record.value or b"{}")["number"] for record in records)
    return found


def main() -> None:
    with klamm.Broker(num_partitions=3) as broker:
        accepted: set[int] = set()
        for first in (0, ORDERS):
            with service(broker.bootstrap) as (process, url):
                accepted |= offer_all(process, url, range(first, first + ORDERS))
        with service(broker.bootstrap):  # completes what the others have left
            found = invoices(broker.bootstrap, len(accepted))
    print("half of the orders, at least, were accepted:", len(accepted) >= ORDERS)
    print("accepted orders without an invoice:", len(accepted - found.keys()))
    print("orders with two invoices:", sum(count > 1 for count in found.values()))


if __name__ == "__main__":
    main()

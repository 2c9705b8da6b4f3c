"""procrastinate: python python_queue.py URL fill COUNT, or python python_queue.py URL work COUNT."""

import asyncio
import sys

import procrastinate


async def main(url, what, count):
    """Fills the queue, or works until everything is done."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=5))

    @app.task(name="job")
    async def job(number):
        await app.connector.execute_query_async("INSERT INTO done VALUES (%(number)s)", number=number)

    async with app.open_async():
        if what == "fill":
            await app.schema_manager.apply_schema_async()
            for number in range(count // 2):
                await job.defer_async(number=number)
            await job.batch_defer_async(*({"number": number} for number in range(count // 2, count)))
            return
        # It is told of new jobs by NOTIFY; the interval is for what it has missed.
        working = asyncio.create_task(app.run_worker_async(concurrency=5, fetch_job_polling_interval=1))
        done = {"done": 0}
        while done["done"] < count and not working.done():
            done = await app.connector.execute_query_one_async("SELECT count(DISTINCT number) AS done FROM done")
            await asyncio.sleep(0.05)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2], int(sys.argv[3])), 60))

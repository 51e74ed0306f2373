"""Calls of a scorer, many at once, retried: an event loop of their own, which an interrupt ends."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, wait_random_exponential

from wmo_distill.arrays import Ids
from wmo_distill.scorers.scorer import Needed, Score, ScoreError, ScoreFault, Scorer, checked

KEEP_SECONDS = 20.0
"""A run that is killed loses the answers of no more than this."""
# Seconds that a run has after an interrupt to keep what it has.
_GRACE = 8.0
# Asking once more would give the same.
_ONCE = (ScoreFault.REFUSED, ScoreFault.ANSWER_TOO_LARGE)

_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class Calls:
    """How a scorer is asked: at most `concurrency` calls at once; a sequence whose scorer is
    unavailable is tried `attempts` times, waiting from `wait` seconds on."""

    scorer: Scorer
    concurrency: int
    attempts: int
    wait: float

    def make(
        self,
        asked: Iterable[tuple[_K, Ids, Needed | None]],
        top_k: int,
        take: Callable[[_K, Score | ScoreError], None],
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for each (key, ids, needed) and `take` what came of it, in the order of the answers.

        `keep` is called every 20 seconds and at the end, whatever ends the calls; an interrupt
        ends them within 10 seconds. Both functions are called from another thread, one at a time.
        """
        shared = iter(asked)

        async def worker() -> None:
            for key, ids, needed in shared:
                take(key, await self._one(ids, top_k, needed))

        async def main() -> None:
            workers = [asyncio.create_task(worker()) for _ in range(self.concurrency)]
            running = set(workers)
            try:
                while running:
                    ended, running = await asyncio.wait(
                        running, timeout=KEEP_SECONDS, return_when=asyncio.FIRST_EXCEPTION
                    )
                    keep()
                    for one in ended:
                        one.result()
            finally:
                for one in workers:
                    one.cancel()
                try:
                    keep()
                finally:
                    every = asyncio.gather(*workers, return_exceptions=True)
                    await asyncio.wait([every], timeout=_GRACE / 2)
                    await self.scorer.close()

        _run(main())

    async def _one(self, ids: Ids, top_k: int, needed: Needed | None) -> Score | ScoreError:
        """A checked score; unavailable: again, later and later, or when the server says."""
        spread = wait_random_exponential(multiplier=self.wait, max=60.0)

        def error_of(state: RetryCallState) -> ScoreError | None:
            if state.outcome is None or state.outcome.failed:
                return None
            found = state.outcome.result()
            return found if isinstance(found, ScoreError) else None

        def again(state: RetryCallState) -> bool:
            error = error_of(state)
            if error is None or error.fault in _ONCE:
                return False
            most = self.attempts if error.fault is ScoreFault.UNAVAILABLE else 2
            return state.attempt_number < most

        def pause(state: RetryCallState) -> float:
            error = error_of(state)
            asked = None if error is None else error.after
            return spread(state) if asked is None else min(asked, 300.0)

        async def call() -> Score | ScoreError:
            try:
                return checked(await self.scorer.score(ids, top_k), ids.size, needed)
            except ScoreError as error:
                # Its frames, and those of its cause, hold the answer until the collector comes.
                error.__context__ = None
                return error.with_traceback(None)

        return await AsyncRetrying(retry=again, wait=pause, reraise=True)(call)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end in a thread, so that the caller may be inside an event loop already.

    An exception that is raised here meanwhile, as signals do, cancels it.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    ended = threading.Event()
    task.add_done_callback(lambda _: ended.set())

    def drive() -> None:
        try:
            loop.run_until_complete(asyncio.wait([task]))
        finally:
            loop.close()

    threading.Thread(target=drive, daemon=True).start()
    try:
        while not ended.wait(
            0.5
        ):  # a signal may reach another thread, which does not wake this one
            pass
    except BaseException:
        with suppress(RuntimeError):  # the loop is closed: it has just ended
            loop.call_soon_threadsafe(task.cancel)
        ended.wait(_GRACE)
        raise
    task.result()

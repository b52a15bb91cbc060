"""Many stories at once: what waits is begun as slots become free, what runs advances together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from runner.datasets.text import END
from runner.serve.model import Teller


class Telling:
    """One continuation; `queue` gets its tokens, then None."""

    __slots__ = ("count", "ignore_end", "most", "prompt", "queue", "wanted")

    def __init__(self, prompt: Sequence[int], most: int, ignore_end: bool) -> None:
        self.prompt, self.most, self.ignore_end = prompt, most, ignore_end
        self.queue: asyncio.Queue[int | None] = asyncio.Queue()
        self.count = 0
        self.wanted = True

    def take(self, token: int) -> bool:
        """Hand a token over; whether more may follow."""
        self.count += 1
        self.queue.put_nowait(token)
        if self.count < self.most and (token != END or self.ignore_end) and self.wanted:
            return True
        self.queue.put_nowait(None)
        return False


class Engine:
    """Runs a `Teller` in the event loop: one step for all, then everybody may send."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._waiting: deque[Telling] = deque()
        self._active: list[Telling] = []
        self._some = asyncio.Event()

    async def tell(
        self, prompt: Sequence[int], most: int, *, ignore_end: bool = False
    ) -> AsyncIterator[int]:
        """The tokens of a continuation, the end mark included."""
        telling = Telling(prompt, most, ignore_end)
        self._waiting.append(telling)
        self._some.set()
        try:
            while (token := await telling.queue.get()) is not None:
                yield token
        finally:
            telling.wanted = False  # whoever asked may be gone

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            if not self._active and not self._waiting:
                self._some.clear()
                await self._some.wait()
            self._begin()
            self._step()
            await asyncio.sleep(0)

    def _begin(self) -> None:
        while self._waiting and self._teller.active < self._teller.slots:
            telling = self._waiting.popleft()
            if not telling.wanted:
                continue
            token = self._teller.begin(telling.prompt)
            self._active.append(telling)
            if not telling.take(token):
                self._end(len(self._active) - 1)

    def _step(self) -> None:
        if not self._active:
            return
        tokens = self._teller.step()
        # From the last to the first: an end moves the last into its place.
        for slot in range(len(tokens) - 1, -1, -1):
            if not self._active[slot].take(tokens[slot]):
                self._end(slot)

    def _end(self, slot: int) -> None:
        last = self._teller.end(slot)
        self._active[slot] = self._active[last]
        self._active.pop()

"""LoadGen's samples where a device copies them from, for as long as they are loaded.

MLPerf's rules want a query's data in the DRAM beside the processor that runs LoadGen; it may be
pinned there ("pinned", the default).  Samples that wait in the accelerator's own memory ("device")
need MLCommons' approval before a submission; they show what the copies cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.trt.memory import Memory
from runner.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEVICE_SHARE = 0.8  # of the free device memory that samples may take
HOST_SHARE = 0.5  # of the free host memory that may be pinned


@dataclass
class Held:
    """One input of all loaded samples.

    Attributes:
        array: one row per sample; `raw` is the same memory in bytes.
        row_bytes: of one sample.
        devices: `id` of a device's memory to the address of the copy there.
    """

    array: NDArray[Any]
    raw: NDArray[np.uint8]
    row_bytes: int
    pinned: bool
    devices: dict[int, int] = field(default_factory=dict)


class Samples:
    """The loaded samples of a backend with one or more devices.

    Args:
        memories: the devices; host memory pinned through one is pinned for all.
        place: "pinned", "device" or "pageable".

    Attributes:
        held: input name to what is loaded.
        place: where they are now: the place asked for, or what there was room for.
        note: why that differs; "" otherwise.
    """

    def __init__(self, memories: Sequence[Memory], place: str) -> None:
        self._memories = list(memories)
        self._wanted = place
        self.place = place
        self.note = ""
        self.held: dict[str, Held] = {}
        self._blocks: list[NDArray[np.uint8]] = []

    def hold(self, arrays: Mapping[str, NDArray[Any]], free_host: int) -> dict[str, NDArray[Any]]:
        """Take these samples in place of those held before.

        Args:
            free_host: bytes of host memory that are free.

        Returns:
            The same values, in the memory that the devices copy from.
        """
        self.release()
        self.place, self.note = self._wanted, ""
        total = sum(array.nbytes for array in arrays.values())
        if self.place != "pageable" and total > HOST_SHARE * free_host:
            self.place = "pageable"
            self.note = (
                f"{total / 1e9:.1f} GB of samples are not pinned: {free_host / 1e9:.1f} GB of host "
                "memory are free. Copies to the device are slower."
            )
        for name, array in arrays.items():
            self.held[name] = self._host(array)
        if self.place == "device":
            self._to_devices(total)
        return {name: held.array for name, held in self.held.items()}

    def _host(self, array: NDArray[Any]) -> Held:
        whole = np.ascontiguousarray(array)
        count = len(whole)
        if self.place != "pageable" and whole.nbytes:
            memory = self._memories[0]
            memory.activate()
            try:
                block = memory.pinned(whole.nbytes)
            except BackendError as error:
                self.place, self.note = "pageable", f"Samples are not pinned: {error}"
            else:
                self._blocks.append(block)
                typed = block.view(whole.dtype).reshape(whole.shape)
                np.copyto(typed, whole)
                return Held(typed, block, whole.nbytes // count, pinned=True)
        raw = whole.reshape(-1).view(np.uint8)
        return Held(whole, raw, whole.nbytes // max(count, 1), pinned=False)

    def _to_devices(self, total: int) -> None:
        for memory in self._memories:
            memory.activate()
            free = memory.free_bytes()
            if total > DEVICE_SHARE * free:
                self._drop_copies()
                self.place = "pinned"
                self.note = (
                    f"{total / 1e9:.1f} GB of samples stay in pinned host memory: "
                    f"{free / 1e9:.1f} GB are free on {memory.facts.name}."
                )
                return
            stream = memory.stream()
            for held in self.held.values():
                if held.raw.nbytes:
                    address = held.devices[id(memory)] = memory.alloc(held.raw.nbytes)
                    memory.h2d(address, held.raw, stream)
            memory.synchronize(stream)

    def rows_of(self, feed: Mapping[str, NDArray[Any]]) -> tuple[int, int] | None:
        """First row and last row + 1 of a feed that is a slice of what is held; None otherwise."""
        found: set[tuple[int, int]] = set()
        for name, array in feed.items():
            held = self.held.get(name)
            if held is None or not held.row_bytes or not array.flags.c_contiguous:
                return None
            offset = array.ctypes.data - held.raw.ctypes.data
            row, rest = divmod(offset, held.row_bytes)
            if rest or not 0 <= row <= len(held.array) - len(array):
                return None
            found.add((row, row + len(array)))
        return found.pop() if len(found) == 1 else None

    def _drop_copies(self) -> None:
        for memory in self._memories:
            for held in self.held.values():
                address = held.devices.pop(id(memory), None)
                if address is not None:
                    memory.activate()
                    memory.free(address)

    def release(self) -> None:
        """Give the memory back; nothing may be copying from it."""
        self._drop_copies()
        self.held = {}
        for block in self._blocks:
            self._memories[0].activate()
            self._memories[0].unpin(block)
        self._blocks = []


def runs_of(rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Neighbouring rows as (first row, how many), in order."""
    count = len(rows)
    first = int(rows[0])
    if count == 1:
        return [(first, 1)]
    seams = np.flatnonzero(np.diff(rows) != 1)
    if not len(seams):
        return [(first, count)]
    starts = np.concatenate(([0], seams + 1))
    sizes = np.diff(np.append(starts, count))
    return list(zip(rows[starts].tolist(), sizes.tolist(), strict=True))

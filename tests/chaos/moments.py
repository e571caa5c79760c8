"""Moments of a process, told by what it does to files: the n-th event below a folder (inotify).

A broker's start takes its time to import Python; what a kill can break happens in the few milliseconds in
which it touches the session, the store and the logs. Events count these moments; a clock would mostly miss
them.
"""

import ctypes
import os
import select
import struct
import time

_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE, _OPEN = 0x2, 0x4, 0xC0, 0x100, 0x200, 0x20
_IS_DIRECTORY = 0x40000000
EVERYTHING = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _OPEN
NEW_FILES = _CREATE
NEW_NAMES = _CREATE | _MOVED
NAMES = _CREATE | _MOVED | _DELETE
_EVENT = struct.Struct("iIII")


class Moments:
    """Counts events below folders, in the directories that are there and in those that appear."""

    def __init__(self, *folders, events=EVERYTHING):
        self.count = 0
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events = events
        self._paths = {}
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            for path, _, _ in os.walk(folder):
                self._watch(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)

    def _watch(self, path):
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), self._events | _CREATE)
        if number >= 0:
            self._paths[number] = path

    def wait(self, count, process, limit_s, suffix=""):
        """Waits for so many events on names that end so, the end of the process, or the limit."""
        deadline = time.monotonic() + limit_s
        while self.count < count and process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            if select.select([self._descriptor], [], [], min(left, 0.05))[0]:
                self._take(suffix)

    def take(self):
        """Counts what has happened since."""
        while select.select([self._descriptor], [], [], 0)[0]:
            self._take("")

    def _take(self, suffix):
        data = os.read(self._descriptor, 1 << 16)
        place = 0
        while place < len(data):
            watch, what, _, length = _EVENT.unpack_from(data, place)
            place += _EVENT.size + length
            name = os.fsdecode(data[place - length : place].rstrip(b"\0"))
            if what & _CREATE and what & _IS_DIRECTORY and watch in self._paths:
                self._watch(f"{self._paths[watch]}/{name}")
            if name.endswith(suffix):
                self.count += 1

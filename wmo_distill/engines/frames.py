"""Values on a pipe: pickled, each with its length in front."""

import pickle
import struct
from typing import IO, Any

_LENGTH = struct.Struct("<Q")


def write_frame(pipe: IO[bytes], value: Any) -> None:
    """A pickled value with its length in front."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> Any:
    """The next value; EOFError where the pipe ends before it is whole."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)

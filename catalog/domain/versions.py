"""CUDA versions compare as versions: 12.10 is newer than 12.9.

Refuses what is not two plain numbers with a dot between them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PATTERN = r"^(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$"
_CUDA = re.compile(PATTERN)


class CudaVersion(NamedTuple):
    """Major and minor; compares in that order."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_cuda(text: str) -> CudaVersion:
    """The version that ``"12.8"`` writes. Raises ValueError for anything but `major.minor`."""
    match = _CUDA.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no CUDA version: write it such as 12.8")
    return CudaVersion(int(match[1]), int(match[2]))


def satisfies(image_cuda: str | None, min_cuda: str | None) -> bool:
    """Whether an image with `image_cuda` (None: without CUDA) runs where at least `min_cuda` (None: any) is needed."""
    if min_cuda is None:
        return True
    return image_cuda is not None and parse_cuda(image_cuda) >= parse_cuda(min_cuda)

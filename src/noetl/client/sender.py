"""What the parts of a client rely on, and nothing else: that a request can be sent and answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from noetl.client.requests import ApiRequest

T = TypeVar("T")


class Sends(ABC):
    @abstractmethod
    def send(self, request: ApiRequest[T]) -> T: ...


class SendsLater(ABC):
    @abstractmethod
    async def send(self, request: ApiRequest[T]) -> T: ...

"""What is asked for, as every authorizer sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full(self) -> str:
        """The resource as rules write it: with its subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

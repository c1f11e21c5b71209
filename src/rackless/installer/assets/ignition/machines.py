"""What a part of a config must know of a machine and of its cluster, whoever planned them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rackless.spec.address import Ip


class ConfiguredMachine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def fqdn(self) -> str: ...
    @property
    def address(self) -> Ip: ...
    @property
    def mac(self) -> str: ...


class ConfiguredCluster(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def api_vip(self) -> Ip: ...
    @property
    def control_planes(self) -> Sequence[ConfiguredMachine]: ...


@dataclass(frozen=True, slots=True)
class OneMachine:
    """A machine that nobody planned a place for."""

    name: str
    fqdn: str
    address: Ip
    mac: str


@dataclass(frozen=True, slots=True)
class OneCluster:
    name: str
    domain: str
    api_vip: Ip
    control_planes: tuple[OneMachine, ...]

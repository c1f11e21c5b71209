"""Words: a class name is used once, and a word of the glossary in one meaning."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "rackless"

TWICE = {
    "Kind": "Kubernetes' own word: a kind as the API serves it, and as a client names it",
}
"""Class names that several modules have, each with the reason why that is clearer than two names."""

MEANINGS = {
    # word: where classes and modules may be called so, as patterns of `module` or `module:Class`
    "machine": [
        r"api\.definitions\.machine(s|_rules)",  # the definitions of the Machine API's kinds, and what is refused of them
        r"(controllers|cluster\.reference|labd)\.machines?\b",  # their controllers, and the objects of a lab's nodes
        r"labd\.\w+:LabMachines",
        r"installer\.assets\.",  # manifests of Machines, and the installer's own words around them
        r"installer\.install_config\.config:MachinePool",  # OpenShift's own word for a set of Machines to be
    ],
    "engine": [r"drivers\.fake\.provisioner:_Engine", r"ports\.ironic:Engine"],  # the provisioning engine, Ironic
    "host": [
        r"(provisioning|controllers)\b",
        r"api\.definitions\.hosts?(_rules)?$",
        r"installer\.",  # platform.baremetal.hosts: BareMetalHosts to be
        r"(ports|drivers\.fake)\.provisioner:",
        r"protocol\.messages:Host",
        r"spec\.hosts\b",  # `hosts` of lab.yaml: hosts to be that are no servers
        r"(labd|operations)\.hosts\b",
        r"cli\.(commands\.host|host_view)\b",
    ],
    "local": [r"drivers\.process:LocalProcesses"],  # of the namespaces that the calling process lives in
}

CALLED_HOST = re.compile(
    r"\bhost's (side|loopback|bridges|firewall|resolver|libvirt|D-Bus|name servers|kernel)\b"
    r"|\b(libvirt|directory|directories|device|bridge|NIC) (on|of) the host\b"
)
"""What somebody writes who calls the hypervisor a host."""

HIDING = {"rest", "hand", "furnish", "doorstep", "sight", "button", "keeping", "collecting"}
"""What modules and classes were called that did not say what they are: pause, servers, mounts, api_forward, observer, power, duties
and garbage now."""


def modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


CLASS = re.compile(r"^ *class (\w+)[(:\[]", re.MULTILINE)


@cache
def classes() -> list[tuple[str, str]]:
    """By their lines: to parse every module takes two seconds."""
    return [(module, name) for module, file in modules() for name in CLASS.findall(file.read_text())]


def words(name: str) -> set[str]:
    """Of `BareMetalHost` bare, metal and host; of `host_rules` host and rules; plurals count as their singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return {part.lower() for part in parts} | {part.lower().removesuffix("s") for part in parts}


def test_a_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for module, name in classes():
        if not name.startswith("_"):
            places[name].append(module)
    again = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in again.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(again), "a name that is used once needs no exception"


@pytest.mark.parametrize("word", MEANINGS)
def test_a_word_of_the_glossary_has_one_meaning(word: str) -> None:
    named = [module for module, _ in modules() if word in words(module.rpartition(".")[2])]
    named += [f"{module}:{name}" for module, name in classes() if word in words(name)]
    strange = [name for name in named if not any(re.match(pattern, name) for pattern in MEANINGS[word])]
    assert strange == []


def test_no_module_and_no_class_is_called_by_a_word_that_hides_what_it_is() -> None:
    named = [*(module for module, _ in modules()), *(f"{module}:{name}" for module, name in classes())]
    assert [name for name in named if HIDING & words(re.split("[.:]", name)[-1])] == []


def test_sentences_do_not_call_the_hypervisor_a_host() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(file for _, file in modules())]
    found = [
        f"{page.relative_to(ROOT)}: {told.group()}" for page in pages for told in CALLED_HOST.finditer(page.read_text())
    ]
    assert found == []
    assert CALLED_HOST.search("a port on the host's loopback") and CALLED_HOST.search("libvirt of the host")


@pytest.mark.parametrize("word", MEANINGS)
def test_the_glossary_says_the_meaning(word: str) -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    glossary = page.partition("## Words")[2].partition("\n## ")[0]
    assert f"*{word}*" in glossary


def test_names_are_taken_apart_into_words() -> None:
    assert {"bare", "metal", "host"} <= words("BareMetalHost")
    assert {"host", "rule", "rules"} <= words("host_rules")
    assert "machine" not in words("apimachinery")

"""Documentation that cannot rot: generated pages are current, commands exist, links lead somewhere."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from rackless.api.definitions.hosts import HOST, HOSTS
from rackless.cli.main import COMMANDS, cli
from rackless.cli.reference import reference as commands_reference
from rackless.diagnosis.reference import reference as rules_reference
from rackless.errors import FINDINGS, RacklessError
from rackless.provisioning.baremetalhost import State
from rackless.provisioning.drawing import redraw
from rackless.spec.explain import fields, reference
from rackless.spec.load import parse

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_the_reference_of_lab_yaml_is_current() -> None:
    assert (ROOT / "docs/reference/lab-yaml.md").read_text() == reference(), "run scripts/docs"


def test_the_reference_of_commands_is_current_and_has_every_option() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text()
    assert page == commands_reference(), "run scripts/docs"
    for code in [0, 1, FINDINGS, *(kind.exit_code for kind in _family(RacklessError))]:
        assert f"\n| {code} | " in page


def test_the_reference_of_why_is_current() -> None:
    assert (ROOT / "docs/reference/why.md").read_text() == rules_reference(), "run scripts/docs"


def test_the_states_of_a_host_are_drawn_as_the_table_has_them() -> None:
    page = (ROOT / "docs/reference/hosts.md").read_text()
    assert redraw(page) == page, "run scripts/docs"
    for state in State:
        assert state.value in page


def _family(kind: type[RacklessError]) -> list[type[RacklessError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _family(child))]


def test_every_field_has_a_story() -> None:
    assert [field.path for field in fields() if not field.meaning] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_documentation_exist_with_their_options(page: Path) -> None:
    context = click.Context(cli)
    for line in re.findall(r"(?m)(?:^|`|sudo )(?:\./)?rackless ((?:[a-z-]+)[^`\n#|]*)", page.read_text()):
        words = line.split()
        if words[0] not in COMMANDS:
            pytest.fail(f"{page.name}: there is no `rackless {words[0]}`")
        command = cli.get_command(context, words[0])
        assert command is not None
        for word in words[1:]:
            if not isinstance(command, click.Group) or not re.fullmatch("[a-z-]+", word):
                break
            command = command.get_command(context, word)
            assert command is not None, f"{page.name}: rackless {line}"
        known = {option for parameter in command.params for option in parameter.opts}
        before_dashes = words[: words.index("--")] if "--" in words else words
        for word in before_dashes:
            option = word.strip("[]").partition("=")[0]
            if re.fullmatch(r"--[a-z-]+", option):
                assert option in known, f"{page.name}: rackless {line}"


def test_the_lab_shown_in_the_how_to_is_a_valid_one() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/howto/describe-a-lab.md").read_text(), re.DOTALL)
    assert [parse(block, "how-to").name for block in blocks] == ["site-a", "lab"]


def test_the_servers_shown_for_network_boot_bring_their_network() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/howto/boot-over-the-network.md").read_text(), re.DOTALL)
    shown = [parse(block, "how-to").networks.provisioning for block in blocks]
    assert [(each.mode, each.discover) for each in shown] == [("managed", "off"), ("managed", "url")]


def test_every_dependency_has_its_reason_written_down() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/explanation/dependencies.md").read_text().lower()
    names = [re.split(r"[><=\[; ]", wanted)[0] for wanted in project["dependencies"]]
    assert [name for name in names if name.lower() not in page] == []


def test_the_page_of_hosts_has_every_field_of_the_definition() -> None:
    page = (ROOT / "docs/reference/hosts.md").read_text()
    schema = HOST["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec, status = schema["spec"]["properties"], schema["status"]["properties"]
    wanted = {f"`{name}" for name in {**spec, **status}}
    wanted |= {f"`bmc.{name}`" for name in spec["bmc"]["properties"]}
    wanted |= {f"`image.{name}`" for name in spec["image"]["properties"]}
    wanted |= {f"| {each['spec']['names']['kind']} |" for each in HOSTS if each is not HOST}
    assert {name for name in wanted if name not in page} == set()

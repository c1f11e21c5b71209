from pathlib import Path

import pytest
from click.testing import CliRunner

from rackless.cli.commands.explain import explain as command
from rackless.cli.commands.install_config import explain_field
from rackless.errors import InputError
from rackless.installer.install_config import explaining, schema

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "install-config.md"


def test_every_field_can_be_explained_and_says_what_it_means() -> None:
    for name, field in schema.walk():
        text = explaining.explain(name)
        assert field.meaning in text and "since:" in text, name


def test_indexes_and_case_do_not_matter() -> None:
    assert explaining.explain("platform.baremetal.hosts[3].bmc.address") == explaining.explain(
        "Platform.Baremetal.Hosts.BMC.address"
    )


def test_a_field_named_without_its_place_is_found() -> None:
    with pytest.raises(InputError) as caught:
        explaining.explain("externalMACAddress")
    assert "install-config.platform.baremetal.externalMACAddress" in caught.value.hint


def test_the_command_prints_version_default_and_rules() -> None:
    shown = CliRunner().invoke(command, ["install-config.platform.baremetal.bootstrapExternalStaticDNS"]).output
    assert "4.14" in shown and "bootstrapExternalStaticIP" in shown


def test_the_whole_file_is_listed() -> None:
    assert "pullSecret" in CliRunner().invoke(command, ["install-config"]).output


def test_below_a_map_are_its_own_fields_or_all_of_them() -> None:
    path = ["install-config.platform.baremetal"]
    near, deep = (CliRunner().invoke(command, [*path, *more]).output for more in ([], ["--recursive"]))
    assert "  hosts " in near and "hosts[].bmc.address" not in near
    assert "  hosts " in deep and "  hosts[].bmc.address " in deep
    assert CliRunner().invoke(explain_field, ["platform.baremetal", "--recursive"]).output == deep


def test_the_reference_page_is_what_the_table_says() -> None:
    assert _PAGE.read_text() == explaining.reference(), "run scripts/docs"


def test_fields_of_a_lab_are_explained_too() -> None:
    assert "VIPs" in CliRunner().invoke(command, ["lab.networks.cluster"]).output

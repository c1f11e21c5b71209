from dataclasses import replace

from rackless.drivers.ironic.instance import deploy_interface, deploy_steps, holds, instance_info
from rackless.ports.provisioner import BmcLogin, HostAccess, Image

HOST = HostAccess("w0", "uid", BmcLogin("redfish://192.0.2.1", "", ""), "02:00:00:00:00:01")
STEP = Image("", "", method="install_coreos")
IMAGE = Image("http://192.0.2.1/x", "ab" * 32)


def test_a_step_of_the_agents_own_is_run_by_the_agent_that_knows_it() -> None:
    assert deploy_interface(STEP) == "custom-agent"
    assert deploy_steps(STEP) == [{"interface": "deploy", "step": "install_coreos", "priority": 80, "args": {}}]
    assert instance_info(HOST, STEP) == {"custom_deploy": "install_coreos", "capabilities": {"boot_mode": "uefi"}}
    both = replace(IMAGE, method="install_coreos")
    assert instance_info(HOST, both)["image_source"] == IMAGE.url
    assert deploy_steps(IMAGE) == [] and deploy_interface(IMAGE) == "direct"


def test_a_node_holds_what_it_was_told_by_image_and_by_step() -> None:
    both = replace(IMAGE, method="install_coreos")
    told = {image: {"instance_info": instance_info(HOST, image)} for image in (STEP, IMAGE, both)}
    for image, node in told.items():
        assert [other for other in told if holds(node, other)] == [image]
    assert not holds(told[STEP], replace(STEP, method="other"))

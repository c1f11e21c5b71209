"""Our definitions say what Metal3's and OpenShift's say; their rules refuse what the webhooks refuse."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machine_rules import HOST_OPERATORS
from rackless.api.definitions.machines import MACHINES
from rackless.controllers.machines.selectors import OPERATORS

from .conftest import HOSTS as HOSTS_PATH
from .conftest import ROOT, Client, Json

REFERENCE = ROOT.parent / "shared" / "data" / "crds"
if not REFERENCE.exists():
    REFERENCE = ROOT.parent.parent / "shared" / "data" / "crds"
OURS = {each["metadata"]["name"]: each for each in (*HOSTS, *MACHINES)}


@functools.cache
def _reference() -> dict[str, Json]:
    if not REFERENCE.exists():
        pytest.skip("the reference definitions are not beside this checkout")
    found = {}
    for path in sorted(Path(REFERENCE).glob("*.yaml")):
        for document in yaml.load_all(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if document and document["kind"] == "CustomResourceDefinition":
                found[document["metadata"]["name"]] = document
    return found


def _bare(schema: Any) -> Any:
    """A schema without prose."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: Json = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _bare(each) for name, each in value.items()}
        elif key == "required":
            found[key] = sorted(value)
        elif key != "description" or isinstance(value, dict):
            found[key] = _bare(value)
    return found


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_definition_agrees_with_the_reference_in_everything_but_prose(name: str) -> None:
    theirs, ours = _reference()[name]["spec"], OURS[name]["spec"]
    assert ours["names"] == theirs["names"]
    assert (ours["scope"], ours["group"]) == (theirs["scope"], theirs["group"])
    for mine, their in zip(ours["versions"], theirs["versions"], strict=True):
        assert mine["name"] == their["name"]
        assert (mine.get("subresources") or {}) == (their.get("subresources") or {})
        columns = [
            [
                {k: v for k, v in column.items() if k != "description"}
                for column in each.get("additionalPrinterColumns", ())
                if column["name"] != "Progress"  # ours alone: what is being done with a host, and how far that is
            ]
            for each in (mine, their)
        ]
        assert columns[0] == columns[1]
        schemas = [_bare(each["schema"]["openAPIV3Schema"]) for each in (mine, their)]
        for schema in schemas:
            schema.pop("required", None)
        assert schemas[0] == schemas[1]


async def test_every_definition_of_the_field_loads(client: Client) -> None:
    for name, definition in _reference().items():
        if name not in OURS:
            await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


def _host(name: str = "w0", **spec: Any) -> Json:
    bmc = {"address": "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "w0-bmc"}
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name},
        "spec": {"online": True, "bmc": bmc, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"bmc": {"address": "telnet://192.0.2.1", "credentialsName": "x"}}, "spec.bmc.address"),
        ({"bmc": {"address": "redfish://bad host/", "credentialsName": "x"}}, "spec.bmc.address"),
        ({"bmc": {"address": "libvirt://192.0.2.1:6230", "credentialsName": "x"}}, "spec.bootMACAddress"),
        ({"bmc": {"address": "ipmi://192.0.2.1", "credentialsName": "x"}, "bootMode": "UEFISecureBoot"},
        "spec.bootMode"),
        ({"rootDeviceHints": {"deviceName": "sda"}}, "spec.rootDeviceHints.deviceName"),
        ({"image": {"url": "http://example.com/i.qcow2"}}, "spec.image.checksum"),
        ({"userData": {"name": "u", "namespace": "elsewhere"}}, "spec.userData.namespace"),
        ({"disablePowerOff": True, "online": False}, "spec.disablePowerOff"),
        ({"firmware": {"sriovEnabled": True}}, "spec.firmware"),
        ({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}}, "spec.raid"),
        ({"raid": {"hardwareRAIDVolumes": [{"level": "1"}]}}, "spec.raid"),
        ({"inspectionMode": "fast"}, "spec.inspectionMode"),
        ({"disablePowerOff": True}, "spec.disablePowerOff"),
        ({"networkInterfaces": [{"name": "eth0"}]}, "spec.networkInterfaces"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "spec.taints"),
        ({"hardwareProfile": "toaster"}, "spec.hardwareProfile"),
        ({"image": {"url": "oci://example.com/i"}}, "spec.image.url"),
        ({"image": {"url": "http://x/i", "checksum": "a", "ociAuthSecretName": "x"}}, "spec.image.ociAuthSecretName"),
        ({"image": {"url": "http://x/i.vmdk", "checksum": "a", "format": "vmdk"}}, "spec.image.format"),
    ],
)  # fmt: skip
async def test_a_host_that_metal3_would_refuse_is_refused(client: Client, spec: Json, field: str) -> None:
    code, answer = await client.call("POST", HOSTS_PATH, _host(**spec))
    assert code == 422
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


async def test_a_host_is_not_rebooted_by_force(client: Client) -> None:
    record = _host()
    record["metadata"]["annotations"] = {"reboot.metal3.io": '{"mode": "hard", "force": true}'}
    code, answer = await client.call("POST", HOSTS_PATH, record)
    assert code == 422 and "force" in answer["message"]
    record["metadata"]["annotations"] = {"reboot.metal3.io": '{"mode": "hard", "force": false}'}
    assert (await client.call("POST", HOSTS_PATH, record))[0] == 201


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("inspect.metal3.io/hardwaredetails", '{"ramMebibytes": "x"}', "ramMebibytes in body must be of type integer"),
        ("inspect.metal3.io/hardwaredetails", '{"nics": [{"mac": "x"}]}', "nics[0].mac"),
        ("inspect.metal3.io/hardwaredetails", '{"memory": 7}', "unknown field memory"),
        ("baremetalhost.metal3.io/status", '{"poweredOn": "yes"}', "poweredOn in body must be of type boolean"),
        ("baremetalhost.metal3.io/status", '{"operationalStatus": "fine"}', "operationalStatus"),
        ("baremetalhost.metal3.io/status", "[]", "must be a JSON object"),
    ],
)
async def test_a_status_or_hardware_in_an_annotation_is_one_that_can_be_stored(
    client: Client, name: str, value: str, said: str
) -> None:
    record = _host()
    record["metadata"]["annotations"] = {name: value}
    code, answer = await client.call("POST", HOSTS_PATH, record)
    assert code == 422 and said in answer["message"] and name in answer["message"]


async def test_a_status_in_an_annotation_may_be_a_part_of_one(client: Client) -> None:
    record = _host()
    part = '{"provisioning": {"state": "provisioned"}, "hardwareProfile": "unknown", "newer": 1}'
    record["metadata"]["annotations"] = {
        "baremetalhost.metal3.io/status": part,
        "inspect.metal3.io/hardwaredetails": '{"ramMebibytes": 7, "nics": [{"mac": "02:00:00:00:00:01"}]}',
    }
    code, answer = await client.call("POST", HOSTS_PATH, record)
    assert code == 201, answer


async def test_what_may_not_change_on_a_host_does_not(client: Client) -> None:
    path = f"{HOSTS_PATH}/w0"
    await client.create(HOSTS_PATH, _host(bootMACAddress="02:00:00:00:00:01"))
    code, answer = await client.merge(path, {"spec": {"bootMACAddress": "02:00:00:00:00:02"}})
    assert code == 422 and "can not be changed once it is set" in answer["message"]
    code, _ = await client.merge(path, {"spec": {"bmc": {"address": "ipmi://192.0.2.2"}}})
    assert code == 200
    code, answer = await client.merge(f"{path}/status", {"status": {"errorMessage": "", "operationalStatus": "OK",
        "poweredOn": True, "provisioning": {"state": "provisioned", "ID": "1"}}})  # fmt: skip
    assert code == 200, answer
    code, answer = await client.merge(path, {"spec": {"bmc": {"address": "ipmi://192.0.2.3"}}})
    assert code == 422 and "spec.bmc.address" in answer["message"]
    code, answer = await client.call("POST", HOSTS_PATH, _host("0f8fad5b-d9cb-469f-a165-70867728950e"))
    assert code == 422 and "cannot be a UUID" in answer["message"]


_BESIDE = HOSTS_PATH.rpartition("/")[0]


@pytest.mark.parametrize(
    ("kind", "plural", "spec"),
    [
        ("HostFirmwareComponents", "hostfirmwarecomponents", {"updates": [{"component": "bmc", "url": "http://x"}]}),
        ("HostUpdatePolicy", "hostupdatepolicies", {"firmwareSettings": "onReboot"}),
        ("PreprovisioningImage", "preprovisioningimages", {"acceptFormats": ["iso"]}),
    ],
)
async def test_what_nobody_here_acts_on_is_refused_with_a_reason(
    client: Client, kind: str, plural: str, spec: Json
) -> None:
    record = {"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "w0"}, "spec": spec}
    code, answer = await client.call("POST", f"{_BESIDE}/{plural}", record)
    assert code == 422 and " here" in answer["message"]


@pytest.mark.parametrize(
    ("kind", "plural", "spec", "why"),
    [
        ("DataImage", "dataimages", {"url": "nfs://192.0.2.1/x.iso"}, "must be an http or https URL"),
        ("BMCEventSubscription", "bmceventsubscriptions", {"destination": "http://x/"}, "hostName cannot be empty"),
        ("BMCEventSubscription", "bmceventsubscriptions", {"hostName": "w0"}, "destination cannot be empty"),
        ("BMCEventSubscription", "bmceventsubscriptions", {"hostName": "w0", "destination": "x"}, "an http or https"),
        (
            "BMCEventSubscription",
            "bmceventsubscriptions",
            {"hostName": "w0", "destination": "http://192.0.2.1"},
            "must have a trailing slash",
        ),
        (
            "BMCEventSubscription",
            "bmceventsubscriptions",
            {"hostName": "w0", "destination": "http://x/", "httpHeadersRef": {"name": "x", "namespace": "other"}},
            "must be the namespace of the subscription",
        ),
    ],
)
async def test_what_cannot_be_done_beside_a_host_is_refused(
    client: Client, kind: str, plural: str, spec: Json, why: str
) -> None:
    record = {"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "w0"}, "spec": spec}
    code, answer = await client.call("POST", f"{_BESIDE}/{plural}", record)
    assert code == 422 and why in answer["message"]


MACHINE_PATH = "/apis/machine.openshift.io/v1beta1/namespaces/default"
IMAGE = {"url": "http://192.0.2.1/node.qcow2", "checksum": "ab" * 32}


def machine(name: str = "m", **value: Any) -> Json:
    provider = {"apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec", **value}
    spec = {"providerSpec": {"value": provider}}
    return {
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def machine_set(labels: Json, selector: Json, **value: Any) -> Json:
    template = {"metadata": {"labels": labels}, "spec": machine(**value)["spec"]}
    return {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


@pytest.mark.parametrize(
    ("value", "field", "why"),
    [
        ({"image": IMAGE, "hostselector": {"matchLabels": {"a": "b"}}}, "hostselector", "hostSelector"),
        ({"image": {**IMAGE, "sourceURL": "http://x"}}, "image.sourceURL", "checksum"),
        ({"image": IMAGE, "hostSelector": {"matchlabels": {"a": "b"}}}, "hostSelector.matchlabels", "matchLabels"),
        ({"image": "http://x"}, "image", "must be an object"),
        (
            {"image": IMAGE, "hostSelector": {"matchExpressions": [{"key": "a", "operator": "like", "values": ["b"]}]}},
            "hostSelector.matchExpressions[0].operator",
            "Unsupported value",
        ),
        ({"image": IMAGE, "hostSelector": {"matchExpressions": True}}, "hostSelector.matchExpressions", "a list"),
        ({"image": IMAGE, "hostSelector": {"matchExpressions": [1]}}, "hostSelector.matchExpressions[0]", "an object"),
        (
            {"image": IMAGE, "hostSelector": {"matchExpressions": [{"key": 1, "operator": "exists"}]}},
            "hostSelector.matchExpressions[0].key",
            "the name of a label",
        ),
        (
            {"image": IMAGE, "hostSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": [1]}]}},
            "hostSelector.matchExpressions[0].values",
            "a list of texts",
        ),
        ({"image": IMAGE, "hostSelector": {"matchLabels": ["a"]}}, "hostSelector.matchLabels", "an object of texts"),
        ({"image": IMAGE, "hostSelector": {"matchLabels": {"a": 1}}}, "hostSelector.matchLabels", "an object of texts"),
    ],
)
async def test_a_machine_that_would_take_another_host_than_meant_is_refused(
    client: Client, value: Json, field: str, why: str
) -> None:
    code, answer = await client.call("POST", f"{MACHINE_PATH}/machines", machine(**value))
    assert code == 422
    [cause] = answer["details"]["causes"]
    assert cause["field"] == f"spec.providerSpec.value.{field}" and why in cause["message"]
    record = machine_set({"a": "b"}, {"matchLabels": {"a": "b"}}, **value)
    code, answer = await client.call("POST", f"{MACHINE_PATH}/machinesets", record)
    assert code == 422 and f"spec.template.spec.providerSpec.value.{field}" in answer["message"]


@pytest.mark.parametrize(
    "value",
    [
        {"image": IMAGE, "hostSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}},
        {"customDeploy": {"method": "install_coreos"}, "image": {"url": "", "checksum": ""}, "hostSelector": {},
         "userData": {"name": "worker-user-data-managed"}, "metadata": {"creationTimestamp": None}},
        {"kind": "SomebodyElsesSpec", "flavour": "large"},
    ],
)  # fmt: skip
async def test_a_machine_as_installers_and_people_write_it_is_taken(client: Client, value: Json) -> None:
    code, answer = await client.call("POST", f"{MACHINE_PATH}/machines", machine(**value))
    assert code == 201, answer


def test_the_operators_of_a_host_selector_are_those_that_are_acted_on() -> None:
    assert set(HOST_OPERATORS) == set(OPERATORS)


async def test_a_set_counts_its_own_machines_and_goes_on_doing_so(client: Client) -> None:
    path, own = f"{MACHINE_PATH}/machinesets", {"matchLabels": {"a": "b"}}
    code, answer = await client.call("POST", path, machine_set({"a": "c"}, own))
    assert code == 422 and "`selector` does not match template `labels`" in answer["message"]
    code, answer = await client.call("POST", path, machine_set({"a": "b"}, {}))
    assert code == 422 and "spec.selector" in answer["message"]
    assert (await client.call("POST", path, machine_set({"a": "b"}, own)))[0] == 201
    code, answer = await client.merge(f"{path}/s", {"spec": {"selector": {"matchLabels": {"a": None, "c": "d"}}}})
    assert code == 422 and "selector is immutable" in answer["message"]
    code, answer = await client.merge(f"{path}/s", {"spec": {"replicas": 3}})
    assert code == 200, answer
    code, answer = await client.merge(f"{path}/s/scale", {"spec": {"replicas": 2}})
    assert code == 200, answer


async def test_a_machine_that_is_being_deleted_gets_no_more_hooks(client: Client) -> None:
    path, hook = f"{MACHINE_PATH}/machines/m", {"name": "wait", "owner": "somebody"}
    record = machine(image=IMAGE)
    record["metadata"]["finalizers"] = ["example.com/held"]
    record["spec"]["lifecycleHooks"] = {"preDrain": [hook]}
    await client.create(f"{MACHINE_PATH}/machines", record)
    await client.call("DELETE", path)
    more = {"spec": {"lifecycleHooks": {"preTerminate": [hook]}}}
    code, answer = await client.merge(path, more)
    assert code == 422 and "pre-terminate hooks are immutable when machine is marked for deletion" in answer["message"]
    code, answer = await client.merge(path, {"spec": {"lifecycleHooks": {"preDrain": []}}})
    assert code == 200, answer


async def test_a_health_check_with_a_template_of_somebody_elses_remedy_is_refused(client: Client) -> None:
    path = f"{MACHINE_PATH}/machinehealthchecks"
    record = {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineHealthCheck",
        "metadata": {"name": "c"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}],
        },
    }
    template = {
        "kind": "Metal3RemediationTemplate",
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "name": "x",
    }
    code, answer = await client.call(
        "POST",
        path,
        {**record, "spec": {**record["spec"], "remediationTemplate": template}},  # type: ignore[dict-item]
    )
    assert code == 422 and "external-baremetal" in answer["message"]
    assert (await client.call("POST", path, record))[0] == 201


async def test_what_stands_beside_a_host_is_taken_and_a_subscription_is_not_changed(client: Client) -> None:
    told = {"hostName": "w0", "destination": "http://192.0.2.1/events"}
    for kind, plural, spec in (
        ("HostFirmwareSettings", "hostfirmwaresettings", {"settings": {"ProcTurboMode": "Disabled", "Cores": 2}}),
        ("DataImage", "dataimages", {"url": "http://192.0.2.1/x.iso"}),
        ("BMCEventSubscription", "bmceventsubscriptions", told),
    ):
        record = {"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "w0"}, "spec": spec}
        await client.create(f"{_BESIDE}/{plural}", record)
    path = f"{_BESIDE}/bmceventsubscriptions/w0"
    code, _ = await client.merge(path, {"metadata": {"labels": {"a": "b"}}})
    assert code == 200
    code, _ = await client.merge(f"{path}/status", {"status": {"subscriptionID": "1"}})
    assert code == 200
    code, answer = await client.merge(path, {"spec": {"context": "other"}})
    assert code == 422 and "please recreate it" in answer["message"]

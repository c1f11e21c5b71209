"""Metal3's kinds: BareMetalHost and those that stand around it."""

from __future__ import annotations

from rackless.api.definitions.shape import (
    AGE,
    CONDITION,
    MAC,
    REFERENCE,
    SECRET,
    TAINT,
    by_key,
    column,
    definition,
    flag,
    many,
    moment,
    number_or_text,
    one_of,
    struct,
    text,
    whole,
    words,
)  # fmt: skip
from rackless.api.status import Json

GROUP, VERSION = "metal3.io", "v1alpha1"

_IMAGE = struct(
    "url",
    "An operating system image, and how to know that it arrived whole.",
    checksum=text("The checksum, or the URL of a file of checksums."),
    checksumType=one_of("md5", "sha256", "sha512", "auto"),
    format=one_of("raw", "qcow2", "vdi", "vmdk", "live-iso", description="Left out: found out by looking."),
    ociAuthSecretName=text("Credentials of the registry, for oci:// URLs."),
    url=text(),
)
_HINTS = struct(
    "",
    "Which disk is the root disk: all that are given must match.",
    deviceName=text("Like /dev/vda, or a path below /dev/disk/by-path."),
    hctl=text("SCSI address, like 0:0:0:0."),
    minSizeGigabytes=whole(minimum=0),
    model=text(), rotational=flag(), serialNumber=text(), vendor=text(), wwn=text(), wwnVendorExtension=text(),
    wwnWithExtension=text(),
)  # fmt: skip
_LEVELS = ("0", "1", "2", "5", "6", "1+0", "5+0", "6+0")
_RAID = struct(
    "",
    "Volumes made before the host is given away; absent leaves them alone, an empty list removes them.",
    hardwareRAIDVolumes=many(
        struct(
            "level",
            controller=text(), level=one_of(*_LEVELS), name=text(maxLength=64), numberOfPhysicalDisks=whole(minimum=1),
            physicalDisks=many(text()), rotational=flag(), sizeGibibytes=whole(minimum=0),
        ),
        nullable=True,
    ),
    softwareRAIDVolumes=many(
        struct(
            "level",
            level=one_of("0", "1", "1+0"), physicalDisks=many(_HINTS, minItems=2),
            rootVolume=flag(default=False), sizeGibibytes=whole(minimum=0),
        ),
        maxItems=2,
        nullable=True,
    ),
)  # fmt: skip
_SWITCH = flag(enum=[True, False])
_FIRMWARE = struct(
    "", "No longer used; HostFirmwareSettings is.",
    simultaneousMultithreadingEnabled=_SWITCH, sriovEnabled=_SWITCH, virtualizationEnabled=_SWITCH,
)  # fmt: skip
_CUSTOM_DEPLOY = struct("method", "A deploy step of the agent instead of writing an image.", method=text())
_BOOT_MODE = one_of("UEFI", "UEFISecureBoot", "legacy")
_VLAN = whole(format="int32", minimum=0, maximum=4094)
HARDWARE = struct(
    "",
    "What inspection found.",
    cpu=struct(
        arch=text(), clockMegahertz={"type": "number", "format": "double"}, count=whole(), flags=many(text()),
        model=text()
    ),
    firmware=struct(bios=struct(date=text(), vendor=text(), version=text())),
    hostname=text(),
    nics=many(
        struct(
            ip=text(), lldp=struct(portID=text(), switchID=text(), switchSystemName=text()), mac=text(pattern=MAC),
            model=text(), name=text(), pciAddress=text(), pxe=flag("Whether it boots from this network card."),
            speedGbps=whole(), vlanId=_VLAN, vlans=many(struct(id=_VLAN, name=text())),
        )
    ),
    ramMebibytes=whole(),
    storage=many(
        struct(
            alternateNames=many(text()), hctl=text(), model=text(), name=text(), rotational=flag(), serialNumber=text(),
            sizeBytes=whole(format="int64"), type=one_of("HDD", "SSD", "NVME"), vendor=text(), wwn=text(),
            wwnVendorExtension=text(), wwnWithExtension=text(),
        )
    ),
    systemVendor=struct(manufacturer=text(), productName=text(), serialNumber=text()),
)  # fmt: skip
_PAIR = struct(end=moment(nullable=True), start=moment(nullable=True))
_TRIED = struct("", "A secret and the version of it that was used.", credentials=SECRET, credentialsVersion=text())

_HOST_SPEC = struct(
    "online",
    "What is wanted of the host.",
    architecture=text("Processor architecture; filled in by inspection."),
    automatedCleaningMode=one_of("metadata", "disabled", default="metadata"),
    bmc=struct(
        "address credentialsName",
        "How the host's management controller is reached.",
        address=text(
            "A URL; its scheme chooses the driver, as in redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1."
        ),
        credentialsName=text("A secret in the same namespace with username and password."),
        disableCertificateVerification=flag(),
    ),
    bootMACAddress=text("The network card the host boots from.", pattern=MAC),
    bootMode=_BOOT_MODE,
    consumerRef=REFERENCE,
    customDeploy=_CUSTOM_DEPLOY,
    description=text(),
    disablePowerOff=flag("Restart where it would be switched off."),
    externallyProvisioned=flag("Somebody else installs it; only its power is managed."),
    firmware=_FIRMWARE,
    hardwareProfile=text("No longer used; rootDeviceHints are."),
    image=_IMAGE,
    inspectionMode=one_of("disabled", "agent", "fast"),
    metaData=SECRET,
    networkData=SECRET,
    networkInterfaces=many(
        struct(
            hostNetworkAttachment=struct(name=text(maxLength=253), namespace=text(maxLength=63)),
            macAddress=text(pattern=f"^{MAC}$"),
            name=text(pattern="^[a-zA-Z0-9._-]+$"),
            switchPort=struct("portID switchID", portID=text(), switchID=text(pattern=f"^{MAC}$")),
        )
    ),
    online=flag("Whether the host should be powered on."),
    preprovisioningNetworkDataName=text("Secret with the network of the deploy ramdisk."),
    raid=_RAID,
    rootDeviceHints=_HINTS,
    taints=many(TAINT),
    userData=SECRET,
)
HOST_STATUS = struct(
    "errorCount errorMessage operationalStatus poweredOn provisioning provisioningFailCount",
    "What is known of the host.",
    conditions=by_key("type", CONDITION, maxItems=32),
    errorCount=whole(default=0),
    errorMessage=text(),
    errorType=one_of(
        "provisioned registration error", "registration error", "inspection error", "preparation error",
        "provisioning error", "power management error", "servicing error",
    ),
    goodCredentials=_TRIED,
    hardware=HARDWARE,
    hardwareProfile=text(),
    lastAttemptedImage=_IMAGE,
    lastUpdated=moment(),
    operationHistory=struct(deprovision=_PAIR, inspect=_PAIR, provision=_PAIR, register=_PAIR),
    operationalStatus=one_of("", "OK", "discovered", "error", "delayed", "detached", "servicing"),
    poweredOn=flag(),
    provisioning=struct(
        "ID state",
        ID=text("The host's identity in Ironic."),
        bootMode=_BOOT_MODE, customDeploy=_CUSTOM_DEPLOY, firmware=_FIRMWARE, image=_IMAGE, raid=_RAID,
        rootDeviceHints=_HINTS, state=text(),
    ),
    provisioningFailCount=whole(default=0),
    triedCredentials=_TRIED,
)  # fmt: skip

_CONDITIONS = by_key("type", CONDITION)
_UPDATES = many(struct("component url", component=text(), url=text()))


def _metal3(kind: str, plural: str, description: str, spec: Json, status: Json | None = None, **more: object) -> Json:
    return definition(GROUP, VERSION, kind, plural, description, spec, status, **more)  # type: ignore[arg-type]


HOST = _metal3(
    "BareMetalHost", "baremetalhosts", "A computer known by its management controller.", _HOST_SPEC, HOST_STATUS,
    short=("bmh", "bmhost"),
    columns=(
        column("Status", ".status.operationalStatus", priority=1),
        column("State", ".status.provisioning.state"),
        column("Consumer", ".spec.consumerRef.name"),
        column("BMC", ".spec.bmc.address", priority=1),
        column("Online", ".spec.online"),
        column("Error", ".status.errorType"),
        column("Progress", ".status.conditions[?(@.type=='Progressing')].message"),
        AGE,
    ),
)  # fmt: skip
HARDWARE_DATA = _metal3(
    "HardwareData", "hardwaredata", "What inspection found on the host of the same name.", struct(hardware=HARDWARE),
    short=("hd",), columns=(AGE,),
)  # fmt: skip
FIRMWARE_SETTINGS = _metal3(
    "HostFirmwareSettings", "hostfirmwaresettings", "The firmware settings of a host, wanted and found.",
    struct("settings", settings={"type": "object", "additionalProperties": number_or_text()}),
    struct(
        "settings", conditions=_CONDITIONS, lastUpdated=moment(), schema=struct("name namespace", name=text(),
        namespace=text()),
        settings=words(),
    ),
    short=("hfs",),
)  # fmt: skip
FIRMWARE_SCHEMA = _metal3(
    "FirmwareSchema", "firmwareschemas", "Which firmware settings a model has, and which values they take.",
    struct(
        "schema",
        hardwareModel=text(),
        hardwareVendor=text(),
        schema={
            "type": "object",
            "additionalProperties": struct(
                allowable_values=many(text()),
                attribute_type=one_of("Enumeration", "String", "Integer", "Boolean", "Password"),
                lower_bound=whole(), max_length=whole(), min_length=whole(), read_only=flag(), unique=flag(),
                upper_bound=whole(),
            ),
        },
    ),
)  # fmt: skip
FIRMWARE_COMPONENTS = _metal3(
    "HostFirmwareComponents", "hostfirmwarecomponents", "The firmware of a host's parts, and what is to be flashed.",
    struct("updates", updates=_UPDATES),
    struct(
        components=many(
            struct(
                "component initialVersion",
                component=text(), currentVersion=text(), initialVersion=text(), lastVersionFlashed=text(),
                updatedAt=moment(),
            )
        ),
        conditions=_CONDITIONS, lastUpdated=moment(), updates=_UPDATES,
    ),
)  # fmt: skip
_FORMAT = one_of("iso", "initrd")
PREPROVISIONING_IMAGE = _metal3(
    "PreprovisioningImage", "preprovisioningimages", "A deploy ramdisk made for one host.",
    struct(acceptFormats=many(_FORMAT), architecture=text(), networkDataName=text()),
    struct(
        architecture=text(), conditions=_CONDITIONS, extraKernelParams=text(), format=_FORMAT, imageUrl=text(),
        kernelUrl=text(), networkData=struct(name=text(), version=text()),
    ),
    short=("ppimg",),
    columns=(
        column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
    ),
)  # fmt: skip
DATA_IMAGE = _metal3(
    "DataImage", "dataimages", "An image shown to a running host as a CD.",
    struct("url", url=text()),
    struct(
        attachedImage=struct("url", url=text()), error=struct("count message", count=whole(), message=text()),
        lastReconciled=moment(),
    ),
)  # fmt: skip
_WHEN = one_of("onPreparing", "onReboot")
UPDATE_POLICY = _metal3(
    "HostUpdatePolicy", "hostupdatepolicies", "When firmware may be changed.",
    struct(firmwareSettings=_WHEN, firmwareUpdates=_WHEN), {"type": "object"}, status_apart=False,
)  # fmt: skip
EVENT_SUBSCRIPTION = _metal3(
    "BMCEventSubscription", "bmceventsubscriptions", "Where a management controller sends its events.",
    struct(context=text(), destination=text(), hostName=text(), httpHeadersRef=SECRET),
    struct(error=text(), subscriptionID=text()),
    short=("bes", "bmcevent"), columns=(column("Error", ".status.error"), AGE),
)  # fmt: skip
HOSTS = (
    HOST, HARDWARE_DATA, FIRMWARE_SETTINGS, FIRMWARE_SCHEMA, FIRMWARE_COMPONENTS, PREPROVISIONING_IMAGE, DATA_IMAGE,
    UPDATE_POLICY, EVENT_SUBSCRIPTION,
)  # fmt: skip

"""OpenShift's machine API: Machine, MachineSet, MachineHealthCheck."""

from __future__ import annotations

from rackless.api.definitions.shape import (
    AGE,
    QUALIFIED,
    REFERENCE,
    SELECTOR,
    TAINT,
    atomic,
    by_key,
    column,
    definition,
    flag,
    free,
    many,
    moment,
    number_or_text,
    one_of,
    struct,
    text,
    whole,
    words,
)  # fmt: skip

GROUP, VERSION = "machine.openshift.io", "v1beta1"
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_DURATION = r"([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"

_HOOKS = by_key(
    "name",
    struct(
        "name owner", name=text(minLength=3, maxLength=256, pattern=QUALIFIED), owner=text(minLength=3, maxLength=512)
    ),
)
_OWNER = atomic(
    struct(
        "apiVersion kind name uid",
        apiVersion=text(), blockOwnerDeletion=flag(), controller=flag(), kind=text(), name=text(), uid=text(),
    )
)  # fmt: skip
_METADATA = struct(
    annotations=words(), generateName=text(), labels=words(), name=text(), namespace=text(),
    ownerReferences=by_key("uid", _OWNER),
)  # fmt: skip
_CONDITIONS = by_key(
    "type",
    struct(
        "lastTransitionTime status type",
        lastTransitionTime=moment(), message=text(), reason=text(), severity=text(), status=text(), type=text(),
    ),
)  # fmt: skip
_MACHINE_SPEC = struct(
    "",
    "What is wanted of the computer.",
    lifecycleHooks=struct(preDrain=_HOOKS, preTerminate=_HOOKS),
    metadata=_METADATA,
    providerID=text("How the provider knows it; baremetalhost:///namespace/name/uid here."),
    providerSpec=struct(value=free("What the provider needs: image, userData, hostSelector.")),
    taints=many(TAINT, **_ATOMIC),
)
MACHINE = definition(
    GROUP, VERSION, "Machine", "machines", "A computer that is, or is to become, a node.",
    _MACHINE_SPEC,
    struct(
        addresses=many(struct("address type", address=text(), type=text()), **_ATOMIC),
        conditions=_CONDITIONS,
        errorMessage=text(),
        errorReason=text(),
        lastOperation=struct(description=text(), lastUpdated=moment(), state=text(), type=text()),
        lastUpdated=moment(),
        nodeRef=REFERENCE,
        phase=text("Provisioning, Provisioned, Running, Deleting or Failed."),
        providerStatus=free(),
    ),
    columns=(
        column("Phase", ".status.phase"),
        column("Type", r".metadata.labels['machine\.openshift\.io/instance-type']"),
        column("Region", r".metadata.labels['machine\.openshift\.io/region']"),
        column("Zone", r".metadata.labels['machine\.openshift\.io/zone']"),
        AGE,
        column("Node", ".status.nodeRef.name", priority=1),
        column("ProviderID", ".spec.providerID", priority=1),
        column("State", r".metadata.annotations['machine\.openshift\.io/instance-state']", priority=1),
    ),
)  # fmt: skip
_COUNT = whole(format="int32")
MACHINE_SET = definition(
    GROUP, VERSION, "MachineSet", "machinesets", "As many machines of one kind as are wanted.",
    struct(
        deletePolicy=one_of("Random", "Newest", "Oldest"),
        minReadySeconds=_COUNT,
        replicas=whole(format="int32", default=1),
        selector=SELECTOR,
        template=struct(metadata=_METADATA, spec=_MACHINE_SPEC),
    ),
    struct(
        availableReplicas=_COUNT, conditions=_CONDITIONS, errorMessage=text(), errorReason=text(),
        fullyLabeledReplicas=_COUNT, labelSelector=text(minLength=1, maxLength=4096),
        observedGeneration=whole(format="int64"),
        readyReplicas=_COUNT, replicas=_COUNT,
    ),
    columns=(
        column("Desired", ".spec.replicas", "integer"),
        column("Current", ".status.replicas", "integer"),
        column("Ready", ".status.readyReplicas", "integer"),
        column("Available", ".status.availableReplicas"),
        AGE,
    ),
    scale={
        "labelSelectorPath": ".status.labelSelector", "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    },
)  # fmt: skip
HEALTH_CHECK = definition(
    GROUP, VERSION, "MachineHealthCheck", "machinehealthchecks", "When a machine counts as unhealthy, and what then.",
    struct(
        maxUnhealthy=number_or_text(default="100%", pattern="^((100|[0-9]{1,2})%|[0-9]+)$"),
        nodeStartupTimeout=text(default="10m", pattern=f"^0|{_DURATION}"),
        remediationTemplate=REFERENCE,
        selector=SELECTOR,
        unhealthyConditions=many(
            struct(status=text(minLength=1), timeout=text(pattern=f"^{_DURATION}"), type=text(minLength=1)), minItems=1
        ),
    ),
    struct(
        conditions=_CONDITIONS, currentHealthy=whole(minimum=0), expectedMachines=whole(minimum=0),
        remediationsAllowed=whole(format="int32", minimum=0),
    ),
    short=("mhc", "mhcs"),
    columns=(
        column("MaxUnhealthy", ".spec.maxUnhealthy"),
        column("ExpectedMachines", ".status.expectedMachines", "integer"),
        column("CurrentHealthy", ".status.currentHealthy", "integer"),
    ),
)  # fmt: skip
MACHINES = (MACHINE, MACHINE_SET, HEALTH_CHECK)

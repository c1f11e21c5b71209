"""What is refused of Machines, MachineSets and MachineHealthChecks beyond their schema.

What OpenShift's webhooks refuse, in their words; and what no controller here acts on. A providerSpec is free in the schema: its
fields are checked here, because a misspelt `hostSelector` would let a Machine take any host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rackless.api.kinds.kind import Writing
from rackless.api.selectors import labels_from_object
from rackless.api.status import Cause, Json, forbidden_field, invalid_value, unsupported

PROVIDER = "BareMetalMachineProviderSpec"
_OBJECT: Mapping[str, Any] = {"apiVersion": {}, "kind": {}, "metadata": {}}
PROVIDER_FIELDS: Mapping[str, Any] = {
    **_OBJECT,
    "image": {"url": {}, "checksum": {}, "checksumType": {}, "format": {}},
    "customDeploy": {"method": {}},
    "userData": {"name": {}, "namespace": {}},
    "hostSelector": {"matchLabels": {}, "matchExpressions": {}},
}
"""The fields of a providerSpec that are acted on, and theirs; below those without any, everything is taken."""
HOST_OPERATORS = ("in", "notin", "exists", "!", "=", "==", "!=", "gt", "lt", "doesnotexist")
"""Of a hostSelector, in any case."""


def machine_problems(writing: Writing) -> list[Cause]:
    if writing.subresource:
        return []
    spec, before = _spec(writing.new), _spec(writing.old)
    return [*_hooks(writing), *_provider_spec("spec", spec, before)]


def machine_set_problems(writing: Writing) -> list[Cause]:
    if writing.subresource:
        return []
    spec, before = _spec(writing.new), _spec(writing.old)
    template, template_before = spec.get("template") or {}, before.get("template") or {}
    selector, labels = spec.get("selector") or {}, (template.get("metadata") or {}).get("labels") or {}
    found = list(_provider_spec("spec.template.spec", template.get("spec") or {}, template_before.get("spec") or {}))
    if writing.old is not None and selector != (before.get("selector") or {}):
        found.append(forbidden_field("spec.selector", "selector is immutable"))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        if writing.old is None:
            found.append(
                invalid_value("spec.selector", selector, "it is empty: every Machine there is would be its own")
            )
    elif spec != before and not _fits(selector, labels):
        at = "spec.template.metadata.labels"
        found.append(invalid_value(at, labels, "`selector` does not match template `labels`"))
    return found


def health_check_problems(writing: Writing) -> list[Cause]:
    spec, before = _spec(writing.new), _spec(writing.old)
    if writing.subresource or not spec.get("remediationTemplate") or before.get("remediationTemplate"):
        return []
    why = (
        "no controller here makes remediations from a template: leave it out, a Machine is then deleted, or power cycled with the "
        "annotation machine.openshift.io/remediation-strategy: external-baremetal"
    )
    return [forbidden_field("spec.remediationTemplate", why)]


def _hooks(writing: Writing) -> Iterator[Cause]:
    """While a Machine is being deleted, hooks may only be taken away."""
    if writing.old is None or not writing.new["metadata"].get("deletionTimestamp"):
        return
    hooks, before = (_spec(each).get("lifecycleHooks") or {} for each in (writing.new, writing.old))
    for moment, said in (("preDrain", "pre-drain"), ("preTerminate", "pre-terminate")):
        there = before.get(moment) or ()
        if new := [str(hook.get("name")) for hook in hooks.get(moment) or () if hook not in there]:
            why = f"{said} hooks are immutable when machine is marked for deletion: the following hooks are new or changed: "
            yield forbidden_field(f"spec.lifecycleHooks.{moment}", why + ", ".join(new))


def _provider_spec(at: str, spec: Json, before: Json) -> Iterator[Cause]:
    value, old = ((each.get("providerSpec") or {}).get("value") for each in (spec, before))
    if not isinstance(value, Mapping) or value == old or value.get("kind") not in (None, "", PROVIDER):
        return
    at = f"{at}.providerSpec.value"
    yield from _unknown(at, value, PROVIDER_FIELDS)
    if isinstance(selector := value.get("hostSelector"), Mapping):
        yield from _host_selector(f"{at}.hostSelector", selector)


def _host_selector(at: str, selector: Mapping[str, Any]) -> Iterator[Cause]:
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if labels is not None and not (isinstance(labels, Mapping) and _are_texts(labels.values())):
        yield invalid_value(f"{at}.matchLabels", labels, "must be an object of texts")
    if expressions is not None and not isinstance(expressions, list):
        yield invalid_value(f"{at}.matchExpressions", expressions, "must be a list")
        return
    for index, each in enumerate(expressions or ()):
        there = f"{at}.matchExpressions[{index}]"
        if not isinstance(each, Mapping):
            yield invalid_value(there, each, "must be an object")
            continue
        key, operator, values = each.get("key"), each.get("operator"), each.get("values")
        if not key or not isinstance(key, str):
            yield invalid_value(f"{there}.key", key, "must be the name of a label")
        if str(operator or "").lower() not in HOST_OPERATORS:
            yield unsupported(f"{there}.operator", operator, HOST_OPERATORS)
        if values is not None and not (isinstance(values, list) and _are_texts(values)):
            yield invalid_value(f"{there}.values", values, "must be a list of texts")


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _unknown(at: str, value: Any, known: Mapping[str, Any]) -> Iterator[Cause]:
    if not known or value is None:
        return
    if not isinstance(value, Mapping):
        yield invalid_value(at, value, "must be an object")
        return
    for name, part in value.items():
        if name in known:
            yield from _unknown(f"{at}.{name}", part, known[name])
        else:
            yield forbidden_field(f"{at}.{name}", f"it is no field of a {PROVIDER}: {', '.join(known)}")


def _fits(selector: Json, labels: Mapping[str, str]) -> bool:
    try:
        return labels_from_object(selector).matches(labels)
    except KeyError:
        return False  # an operator that there is not


def _spec(record: Json | None) -> Json:
    return (record or {}).get("spec") or {}

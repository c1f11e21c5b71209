"""YAML in and out, by libyaml, within bounds: what aliases stand for counts, and numbers are as long as numbers are."""

from __future__ import annotations

import json
from typing import Any

import yaml

from rackless.api.encoding import decode
from rackless.api.status import bad_request
from rackless.yaml_weight import LOADER, check_depth, weigh

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(raw: bytes) -> Any:
    """The document as JSON values. Raises Refused."""
    loader = None
    try:
        check_depth(raw)
        loader = LOADER(raw)
        node = loader.get_single_node()
        if node is None:
            return None
        weigh(node)
        # Through JSON: YAML's dates and its own types are no JSON values.
        return decode(json.dumps(loader.construct_document(node), default=str).encode())
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()


def dump(value: Any) -> bytes:
    written: str = yaml.dump(value, Dumper=_Dumper)
    return written.encode()

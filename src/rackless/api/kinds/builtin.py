"""Every kind that is there without a definition."""

from __future__ import annotations

from rackless.api.kinds.access import ACCESS, REVIEWS
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.core import CORE
from rackless.api.kinds.custom import CRD
from rackless.api.kinds.empty import EMPTY
from rackless.api.kinds.events import EVENTS
from rackless.api.kinds.kind import Kind

BUILTIN: tuple[Kind, ...] = (*CORE, *EMPTY, *EVENTS, *ACCESS, CERTIFICATE_REQUEST, *REVIEWS, CRD)

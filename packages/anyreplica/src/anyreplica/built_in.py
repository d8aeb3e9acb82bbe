"""The list of the features that every replica has."""

from anyreplica.feature import Feature
from anyreplica.features.audit.feature import AuditTrail
from anyreplica.features.cache.feature import ResultCache
from anyreplica.features.console.feature import Console
from anyreplica.features.downstream.feature import DownstreamCalls
from anyreplica.features.jobs.feature import Jobs
from anyreplica.features.keys.feature import Keys
from anyreplica.features.login.feature import UserLogin
from anyreplica.features.metrics.feature import Metrics
from anyreplica.features.ratelimit.feature import RateLimits
from anyreplica.features.server_card.feature import ServerCard
from anyreplica.features.sessions.feature import ClientSessions
from anyreplica.features.signatures.feature import SignatureCheck
from anyreplica.features.tracing.feature import Tracing

FIRST: tuple[type[Feature], ...] = (
    Tracing,
    RateLimits,
    Keys,
    UserLogin,
    SignatureCheck,
    DownstreamCalls,
    AuditTrail,
    ResultCache,
    Jobs,
    ServerCard,
    Console,
)
"""The features before those of the server's author, in the order in which a replica gets them."""
LAST: tuple[type[Feature], ...] = (ClientSessions, Metrics)
"""The features after those of the server's author. Sessions end before what their calls use, such as jobs and the audit
log. The metrics are last, because they collect those of all other features."""

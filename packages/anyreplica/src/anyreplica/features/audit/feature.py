"""The feature *audit log*: one entry for each call, in a chain of hashes."""

from functools import partial

from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.audit.call import note_arguments
from anyreplica.features.audit.middleware import AuditMiddleware, audit_log, check, observer


class AuditTrail(Feature):
    """Writes the audit log that AUDIT_LOG names. `check` writes no entry."""

    def check(self) -> None:
        check(self.settings)

    def attach(self, replica: Replica) -> Parts:
        log = None if replica.is_trial else audit_log(self.settings, replica.name)
        if log is None:
            return Parts()
        around = partial(AuditMiddleware, log=log, settings=self.settings)
        return Parts(
            middleware=[(Position.BEFORE_AUTHENTICATION, around)],
            on_call=[note_arguments],
            observers=[observer(log)],
            running=[log.running()],
        )

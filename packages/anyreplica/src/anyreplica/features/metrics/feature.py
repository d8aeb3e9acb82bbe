"""The feature *metrics*: a page for Prometheus about the replica, its requests and all other features."""

from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.metrics.lag import LoopLag
from anyreplica.features.metrics.page import metrics_route
from anyreplica.features.metrics.replica import ReplicaMetrics
from anyreplica.features.metrics.requests import RequestMetrics


class Metrics(Feature):
    """Serves METRICS_PATH. It comes last, because it shows the metrics of all features before it."""

    def attach(self, replica: Replica) -> Parts:
        lag = LoopLag()
        requests = RequestMetrics(replica.tool_paths, lambda: replica.lifecycle.state == "draining")
        state = ReplicaMetrics(
            replica.name, replica.lifecycle, replica.limits.in_flight, replica.connections, replica.peers
        )
        collectors = [requests, lag, state, *replica.attached("collectors")]
        token = self.settings.metrics_token
        page = metrics_route(collectors, replica.attached("refresh"), token, self.settings.metrics_path)
        # With a token of their own, the metrics need it, and a caller's key does not open them.
        exact = {page.path: page.handle} if token else {}
        return Parts(routes=[page], exact=exact, observers=[requests.observer()], running=[lag.running()])

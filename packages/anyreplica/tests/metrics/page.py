"""A helper that reads `/metrics` like Prometheus."""

from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.calls import get


class Scrape:
    """All series of a replica at one moment."""

    def __init__(self, url: str, **headers: str) -> None:
        self.reply: httpx.Response = get(f"{url}/metrics", headers=headers)
        assert self.reply.status_code == 200, self.reply.text
        families = text_string_to_metric_families(self.reply.text)
        self.samples = [sample for family in families for sample in family.samples]

    def series(self, name: str, **labels: str) -> list[float]:
        """Return the values of all series with this name and these labels."""
        return [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the series with this name and these labels, or 0 if there are none."""
        return sum(self.series(name, **labels))

    def labels(self, name: str, label: str) -> set[Any]:
        """Return all values of a label."""
        return {sample.labels[label] for sample in self.samples if sample.name == name}

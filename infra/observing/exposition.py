"""The figures as Prometheus reads them. Imported only by whoever is asked for them: the library takes its time."""

from collections.abc import Iterator
from itertools import accumulate, product

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from infra.observing import catalogue
from infra.observing.catalogue import BUS, PROCESS
from infra.observing.figures import Counter, Gauge, Histogram
from infra.observing.presence import Presence, presence

__all__ = ["CONTENT_TYPE_LATEST", "exposition"]


def exposition() -> bytes:
    """Of the services that are in this process. May be called from anywhere, any number of times."""
    registry = CollectorRegistry()
    registry.register(_Figures(presence()))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return bytes(generate_latest(registry))


class _Figures(Collector):
    def __init__(self, there: Presence) -> None:
        self._services = there.services

    def collect(self) -> Iterator[Metric]:
        for figure in catalogue.ALL:
            if figure.owner in (BUS, PROCESS, *self._services):
                self._begin(figure)
                yield _family(figure)

    def _begin(self, figure: Counter | Gauge | Histogram) -> None:
        """What has not happened yet is nought: from nothing to one no rate can be told."""
        if isinstance(figure, Gauge):
            return
        values = [
            self._services if label == "service" else sorted(allowed or ()) for label, allowed in figure.labels.items()
        ]
        for each in (*figure.begins_with, *product(*values)):
            figure.of(*each)


def _family(figure: Counter | Gauge | Histogram) -> Metric:
    labels = list(figure.labels)
    if isinstance(figure, Histogram):
        spread = HistogramMetricFamily(figure.name, figure.words, labels=labels)
        for values, line in figure.lines():
            sums = list(accumulate(line.counts))
            names = [*(repr(float(bound)) for bound in line.bounds), "+Inf"]
            spread.add_metric(values, list(zip(names, sums, strict=True)), line.total)
        return spread
    kind = CounterMetricFamily if isinstance(figure, Counter) else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = kind(figure.name, figure.words, labels=labels)
    for values, number in figure.lines():
        family.add_metric(values, number.now())
    return family

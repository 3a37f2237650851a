"""Several topologies as one, so that their scenarios can share a query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topologies.graph.origins import Origin
from topologies.graph.streams import Input, Stream
from topologies.topology import Topology


def joined(topologies: Iterable[Topology]) -> Topology:
    """One topology with all parts of several, whose names must differ."""
    first, *others = topologies
    for other in others:
        first = replace(
            first,
            spouts={**first.spouts, **other.spouts},
            plain={**first.plain, **other.plain},
            windowed={**first.windowed, **other.windowed},
            sinks={**first.sinks, **other.sinks},
            readers={**first.readers, **other.readers},
            takers={**first.takers, **other.takers},
        )
    return first


def prefixed(topology: Topology, prefix: str) -> Topology:
    """The topology with a prefix before the name of each of its parts."""

    def stream(given: Stream) -> Stream:
        return f"{prefix}{given[0]}", given[1]

    def inputs(given: tuple[Input, ...]) -> tuple[Input, ...]:
        return tuple(replace(each, stream=stream(each.stream)) for each in given)

    def origins(given: tuple[Origin, ...]) -> tuple[Origin, ...]:
        return tuple(replace(each, bolt=f"{prefix}{each.bolt}") for each in given)

    spouts = [replace(node, name=f"{prefix}{node.name}") for node in topology.spouts.values()]
    plain = [replace(node, name=f"{prefix}{node.name}", inputs=inputs(node.inputs)) for node in topology.plain.values()]
    windowed = [
        replace(
            node,
            name=f"{prefix}{node.name}",
            inputs=inputs(node.inputs),
            origins=tuple(map(origins, node.origins)),
        )
        for node in topology.windowed.values()
    ]
    sinks = [
        replace(node, name=f"{prefix}{node.name}", streams=tuple(map(stream, node.streams)))
        for node in topology.sinks.values()
    ]
    return replace(
        topology,
        spouts={node.name: node for node in spouts},
        plain={node.name: node for node in plain},
        windowed={node.name: node for node in windowed},
        sinks={node.name: node for node in sinks},
        readers={
            stream(of): tuple((f"{prefix}{name}", at) for name, at in readers)
            for of, readers in topology.readers.items()
        },
        takers={stream(of): tuple(f"{prefix}{name}" for name in names) for of, names in topology.takers.items()},
    )

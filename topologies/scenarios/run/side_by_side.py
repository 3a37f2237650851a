"""Several topologies as one, so that their scenarios can share a query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topologies.graph.model import Input, Origin, Stream, Topology


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

    spouts = [replace(part, name=f"{prefix}{part.name}") for part in topology.spouts.values()]
    plain = [replace(part, name=f"{prefix}{part.name}", inputs=inputs(part.inputs)) for part in topology.plain.values()]
    windowed = [
        replace(
            part,
            name=f"{prefix}{part.name}",
            inputs=inputs(part.inputs),
            origins=tuple(map(origins, part.origins)),
        )
        for part in topology.windowed.values()
    ]
    sinks = [
        replace(part, name=f"{prefix}{part.name}", streams=tuple(map(stream, part.streams)))
        for part in topology.sinks.values()
    ]
    return replace(
        topology,
        spouts={part.name: part for part in spouts},
        plain={part.name: part for part in plain},
        windowed={part.name: part for part in windowed},
        sinks={part.name: part for part in sinks},
        readers={
            stream(of): tuple((f"{prefix}{name}", at) for name, at in readers)
            for of, readers in topology.readers.items()
        },
        takers={stream(of): tuple(f"{prefix}{name}" for name in names) for of, names in topology.takers.items()},
    )

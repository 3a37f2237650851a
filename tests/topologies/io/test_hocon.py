"""HOCON as its specification defines it: each rule of HOCON.md in small texts, what is not HOCON, and included files.

The texts restate the examples of the specification, and what the tests of its first implementation hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.io.hocon import HoconError, parse_hocon

ENVIRONMENT = {"HOME_OF_TEST": "/h", "EMPTY_OF_TEST": "", "PORT_OF_TEST": "80"}

SYNTAX = [  # Comments, braces, separators and commas.
    ("", {}),
    ("# a", {}),
    ("// a\n# b", {}),
    ("\ufeffa: 1", {"a": 1}),
    ("a: 1 # b", {"a": 1}),
    ("a: b // c", {"a": "b"}),
    ('a: "#b"', {"a": "#b"}),
    ("a: b#c", {"a": "b"}),
    ('a: "http://x"', {"a": "http://x"}),
    ("{a: 1}", {"a": 1}),
    ("{a = 1}", {"a": 1}),
    ("a {b: 1}", {"a": {"b": 1}}),
    ("a b {c: 1}", {"a b": {"c": 1}}),
    ("[1, 2, 3,]", [1, 2, 3]),
    ("[1\n2\n3]", [1, 2, 3]),
    ("[1,2,3\n\n , \n]", [1, 2, 3]),
    ("{a: 1,}", {"a": 1}),
    ("a: 1\nb: 2", {"a": 1, "b": 2}),
    ("a: 1, b: 2,", {"a": 1, "b": 2}),
    ("a :\n 1", {"a": 1}),
    ("a\n : 1", {"a": 1}),
    ("a: 1\n,\nb: 2", {"a": 1, "b": 2}),
    ("a\n{b: 1}", {"a": {"b": 1}}),
    ("{ a: [] \n b: {} }", {"a": [], "b": {}}),
]
BLANKS = [  # Blanks are those of Unicode; only a line feed ends a line.
    ("a\xa0:\u3000b\u2003c", {"a": "b\u2003c"}),
    ("a:\tb\x1cc", {"a": "b\x1cc"}),
    ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ("a: b\u2028", {"a": "b"}),
]
MERGES = [  # A name that stands twice: mappings are merged, anything else replaces.
    ("a: 1, a: 2", {"a": 2}),
    ("a {x: 1, y: 2}, a {x: 42, z: 3}", {"a": {"x": 42, "y": 2, "z": 3}}),
    ("a {b: 1}, a: null, a {c: 2}", {"a": {"c": 2}}),
    ("a {b: 1}, a: 42, a {c: 2}", {"a": {"c": 2}}),
    ("a {b {x: 1, y: 2}}, a {b {x: 3}}", {"a": {"b": {"x": 3, "y": 2}}}),
    ("a {b: 1}, a: [1]", {"a": [1]}),
]
UNQUOTED = [  # Texts without quotes, and what looks like a number, a word or a duration within them.
    ("a: true", {"a": True}),
    ("a: truefoo", {"a": "truefoo"}),
    ("a: footrue", {"a": "footrue"}),
    ("a: 10.0bar", {"a": "10.0bar"}),
    ("a: bar10.0", {"a": "bar10.0"}),
    ("a: true-x", {"a": "true-x"}),
    ("a: null x", {"a": "null x"}),
    ("a: 5m-out/x", {"a": "5m-out/x"}),
    ("a: 5 s", {"a": "5 s"}),
    ("a: 5s", {"a": "5s"}),
    ("a: 1 month", {"a": "1 month"}),
    ("a: 5 minutes later", {"a": "5 minutes later"}),
    ("a: x 5 days", {"a": "x 5 days"}),
    ("a: a-b.c/d_e;f(g)'h|i~j%k<l>", {"a": "a-b.c/d_e;f(g)'h|i~j%k<l>"}),
    ("a: /x/y", {"a": "/x/y"}),
    ("a: (42)", {"a": "(42)"}),
    ("a: include", {"a": "include"}),
    ("[tru, nul, -, 10x, /]", ["tru", "nul", "-", "10x", "/"]),
    ("a: 1.2.3.4", {"a": "1.2.3.4"}),
    ("a: 2024-01-01", {"a": "2024-01-01"}),
    ("a: yes, b: on, c: NaN", {"a": "yes", "b": "on", "c": "NaN"}),
    ("a: True", {"a": "True"}),
    ("a: NULL", {"a": "NULL"}),
    ("a: 1 2", {"a": "1 2"}),
    ("a: true false", {"a": "true false"}),
    ('a: "true"', {"a": "true"}),
    ('a: "1"', {"a": "1"}),
    ('a: "null"', {"a": "null"}),
    ('a: "5 s"', {"a": "5 s"}),
]
NUMBERS = [  # Numbers are those of JSON.
    ("a: 1", {"a": 1}),
    ("a: -1", {"a": -1}),
    ("a: 1.5", {"a": 1.5}),
    ("a: 1e3", {"a": 1000.0}),
    ("a: 1E+3", {"a": 1000.0}),
    ("a: 1e-3", {"a": 0.001}),
    ("a: 0", {"a": 0}),
    ("a: 12345678901234567890", {"a": 12345678901234567890}),
]
QUOTED = [  # Texts in quotes have the escapes of JSON.
    (r'a: "caf\u00e9"', {"a": "café"}),
    (r'a: "\/\b\f\n\r\t\"\\"', {"a": '/\x08\x0c\n\r\t"\\'}),
    ('a: ""', {"a": ""}),
    (r'a: "\ud83d\ude00"', {"a": "😀"}),
    ('a: "x"y"z"', {"a": "xyz"}),
    ('a: "x" y', {"a": "x y"}),
    ('a: "x"  "y"', {"a": "x  y"}),
    (r'"a\nb": 1', {"a\nb": 1}),
    ('a: " x "', {"a": " x "}),
    ('a: "${b}"', {"a": "${b}"}),
    (r'a: "\u0024{b}"', {"a": "${b}"}),
]
TRIPLE = [  # Texts in three quotes have none.
    ('a: """x"""', {"a": "x"}),
    ('a: """x\n y\\n"""', {"a": "x\n y\\n"}),
    ('a: """x""""', {"a": 'x"'}),
    ('a: """"x"""""', {"a": '"x""'}),
    ('a: """"""', {"a": ""}),
    ('a: """x""" y', {"a": "x y"}),
    (r'a: """${b}\u0041"""', {"a": "${b}\\u0041"}),
    ('a: """x\r\ny"""', {"a": "x\r\ny"}),
]
JOINED = [  # Values side by side are joined: texts with the blanks between them, lists, mappings.
    ("a:  foo bar  baz  ", {"a": "foo bar  baz"}),
    ('a: null bar 42 baz true 3.14 "hi"', {"a": "null bar 42 baz true 3.14 hi"}),
    ("a: 1e5 x", {"a": "1e5 x"}),
    ("a: 010 x", {"a": "010 x"}),
    ("a: 1.10 x", {"a": "1.10 x"}),
    ("a: [1,2] [3,4]", {"a": [1, 2, 3, 4]}),
    ("a: [1,2\n] [3]", {"a": [1, 2, 3]}),
    ("a: {b: 1} {c: 2}", {"a": {"b": 1, "c": 2}}),
    ("a: {b: 1} {b: 2}", {"a": {"b": 2}}),
    ("[ [1,2] [3,4] ]", [[1, 2, 3, 4]]),
    ("[ [1,2]\n [3,4] ]", [[1, 2], [3, 4]]),
    ("[ 1 2 3 4 ]", ["1 2 3 4"]),
    ("[ {a: 1} {b: 2} ]", [{"a": 1, "b": 2}]),
    ('[ "4" "5" ]', ["4 5"]),
    ("a {b: 1} {c: 2}", {"a": {"b": 1, "c": 2}}),
]
KEYS = [  # Keys are paths.
    ("a.b: 1", {"a": {"b": 1}}),
    ("a.b.c: 1, a.b.d: 2", {"a": {"b": {"c": 1, "d": 2}}}),
    ('a."b.c".d: 1', {"a": {"b.c": {"d": 1}}}),
    ('"a.b": 1', {"a.b": 1}),
    ("a b c: 1", {"a b c": 1}),
    ("true: 1", {"true": 1}),
    ("3: 1", {"3": 1}),
    ("3.14: 1", {"3": {"14": 1}}),
    ("1.2.3: 1", {"1": {"2": {"3": 1}}}),
    ("10.0foo: 1", {"10": {"0foo": 1}}),
    ("foo10.0: 1", {"foo10": {"0": 1}}),
    ('foo"10.0": 1', {"foo10.0": 1}),
    ('a."".b: 1', {"a": {"": {"b": 1}}}),
    ('"": 1', {"": 1}),
    ("a . b: 1", {"a ": {" b": 1}}),
    ("foo include: 1", {"foo include": 1}),
    ('"include": 1', {"include": 1}),
    ("/a/b: 1, x/y: 2", {"/a/b": 1, "x/y": 2}),
    ("-: 1, -foo: 2, -10: 3", {"-": 1, "-foo": 2, "-10": 3}),
    ("a-b_c: 1", {"a-b_c": 1}),
    ("1e5: 1", {"1e5": 1}),
    ("null: 1", {"null": 1}),
    ("includes: 1", {"includes": 1}),
    ('a"b"c: 1', {"abc": 1}),
    ("a.b {c: 1}", {"a": {"b": {"c": 1}}}),
    ("a {x: 1}\na.y = 2", {"a": {"x": 1, "y": 2}}),
    ("010: 1", {"010": 1}),
    ("1.10: 1", {"1": {"10": 1}}),
]
REFERENCES = [  # References, into texts, lists and mappings, forward and backward; the environment; optional ones.
    ("a: 1, b: ${a}", {"a": 1, "b": 1}),
    ("b: ${a}, a: 1", {"b": 1, "a": 1}),
    ("a: 1, b: ${a}, a: 2", {"a": 2, "b": 2}),
    ("a: true, b: ${a}", {"a": True, "b": True}),
    ("a: null, b: ${a}", {"a": None, "b": None}),
    ("a {b: 1}, c: ${a.b}", {"a": {"b": 1}, "c": 1}),
    ('a."b.c": 1, d: ${a."b.c"}', {"a": {"b.c": 1}, "d": 1}),
    ("a: ${ b }, b: 1", {"a": 1, "b": 1}),
    ("p: 1.10, t: orders-v${p}", {"p": 1.1, "t": "orders-v1.10"}),
    ("p: 010, t: v${p}", {"p": "010", "t": "v010"}),
    ("p: 1e5, t: v${p}", {"p": 100000.0, "t": "v1e5"}),
    ("a: true, t: x${a}", {"a": True, "t": "xtrue"}),
    ("a: null, t: x${a}", {"a": None, "t": "xnull"}),
    ("a: x, t: ${a}${a}", {"a": "x", "t": "xx"}),
    ("a: x, t: ${a} ${a}", {"a": "x", "t": "x x"}),
    ("t: a ${?nix} b", {"t": "a  b"}),
    ("t: a${?nix}", {"t": "a"}),
    ("t: ${?nix}", {}),
    ("t: 1, t: ${?nix}", {"t": 1}),
    ("t: [${?nix}, 1]", {"t": [1]}),
    ("t: ${?nix}${?nox}", {}),
    ("t: ${?nix} ${?nox}", {"t": " "}),
    ('t: ""${?nix}', {"t": ""}),
    ("t: [1] ${?nix}", {"t": [1]}),
    ("t: {a: 1} ${?nix}", {"t": {"a": 1}}),
    ("a: [1], t: ${a} [2] ${a}", {"a": [1], "t": [1, 2, 1]}),
    ("a {x: 1}, t: ${a} {y: 2}", {"a": {"x": 1}, "t": {"x": 1, "y": 2}}),
    ("a {x: 1}, t: ${a}\nt.y: 2", {"a": {"x": 1}, "t": {"x": 1, "y": 2}}),
    ("a {x: 1}, t: ${a}, t {x: 2}", {"a": {"x": 1}, "t": {"x": 2}}),
    ("a: {b: [1]}, c: ${a.b}", {"a": {"b": [1]}, "c": [1]}),
    ("a: ${?b}, b: ${?c}, d: ${?a}", {}),
    ("a: ${b}, b: ${c}, c: 5", {"a": 5, "b": 5, "c": 5}),
    ("foo {a: 1}, bar {b: 2}, x: ${foo}${bar}", {"foo": {"a": 1}, "bar": {"b": 2}, "x": {"a": 1, "b": 2}}),
    ("a: x ${b} y, b: 3", {"a": "x 3 y", "b": 3}),
    ('a: ${b}" y", b: 3', {"a": "3 y", "b": 3}),
    ("a: ${HOME_OF_TEST}", {"a": "/h"}),
    ("a: ${?HOME_OF_TEST}/x", {"a": "/h/x"}),
    ("HOME_OF_TEST: null, a: ${HOME_OF_TEST}", {"HOME_OF_TEST": None, "a": None}),
    ("HOME_OF_TEST: 1, a: ${HOME_OF_TEST}", {"HOME_OF_TEST": 1, "a": 1}),
    ("a: ${EMPTY_OF_TEST}", {"a": ""}),
    ("a: 5, a: ${?PORT_OF_TEST}", {"a": "80"}),
    ("t: ${a}, a: [${b}], b: 1", {"t": [1], "a": [1], "b": 1}),
]
LOOKING_BACK = [  # References to what a key was given before, and mappings that refer to one another.
    ('p: "a:b", p: ${p}":c"', {"p": "a:b:c"}),
    ("a: [1], a: ${a} [2]", {"a": [1, 2]}),
    ("a: [1], a: ${a} [2], a: ${a} [3]", {"a": [1, 2, 3]}),
    ("a {x: 1}, a: ${a} {y: 2}", {"a": {"x": 1, "y": 2}}),
    ("a: 1, a: ${a}", {"a": 1}),
    ("a: ${?a}foo", {"a": "foo"}),
    ("a: ${?a}", {}),
    ("a: ${nix}, a: 42", {"a": 42}),
    ("a: ${a}, a: 42", {"a": 42}),
    ("foo {a {c: 1}}, foo: ${foo.a}, foo {a: 2}", {"foo": {"a": 2, "c": 1}}),
    ("bar {foo: 42, baz: ${bar.foo}}", {"bar": {"foo": 42, "baz": 42}}),
    ("bar {foo: 42, baz: ${bar.foo}}, bar {foo: 43}", {"bar": {"foo": 43, "baz": 43}}),
    (
        "bar {a: ${foo.d}, b: 1}, bar.b = 3, foo {c: ${bar.b}, d: 2}, foo.d = 4",
        {"bar": {"a": 4, "b": 3}, "foo": {"c": 3, "d": 4}},
    ),
    ("a: 1, b: 2, a: ${b}, c: ${a}", {"a": 2, "b": 2, "c": 2}),
    ("a: {b: 3}, a: {b: 2} ${a}", {"a": {"b": 3}}),
    (
        "foo: ${a.b.c}, a {b {c: 42, cycle: ${foo}}, cycle: ${foo}}",
        {"foo": 42, "a": {"b": {"c": 42, "cycle": 42}, "cycle": 42}},
    ),
    ("d {a: 1, b: 2}, i: ${d}, i.b: 3, j.b: ${i.b}", {"d": {"a": 1, "b": 2}, "i": {"a": 1, "b": 3}, "j": {"b": 3}}),
    (
        "d {a: 1, b: 2}, i: ${d}, i.b {c: 43}, j.b: ${i.b}",
        {"d": {"a": 1, "b": 2}, "i": {"a": 1, "b": {"c": 43}}, "j": {"b": {"c": 43}}},
    ),
    ("d {a: 1, b: 2}, i.b: 7, i: ${d}, j.b: ${i.b}", {"d": {"a": 1, "b": 2}, "i": {"a": 1, "b": 2}, "j": {"b": 2}}),
    (
        "d {a: ${i.b}, b: 2}, i.b: 7, i: ${d}, j.b: ${i.b}",
        {"d": {"a": 7, "b": 2}, "i": {"a": 7, "b": 2}, "j": {"b": 2}},
    ),
    (
        "i.b.c: 100, d {a: ${i.b.c}, b: 2}, i: ${d}, i.b {c: 43}, j.b: ${i.b}",
        {"i": {"a": 100, "b": {"c": 43}}, "d": {"a": 100, "b": 2}, "j": {"b": {"c": 43}}},
    ),
    (
        "z: 15, f {m.n: ${z}}, e {x: ${z}}, d {b: 2}, g: ${d}, i: 3, i: ${?NIX}, i: ${f}, i: {}\n"
        "i: ${e}, i: ${g}, i: ${d}, i.b {c: 43}, i.y: 1, j.b: ${i.b}",
        {
            "z": 15,
            "f": {"m": {"n": 15}},
            "e": {"x": 15},
            "d": {"b": 2},
            "g": {"b": 2},
            "i": {"m": {"n": 15}, "x": 15, "b": {"c": 43}, "y": 1},
            "j": {"b": {"c": 43}},
        },
    ),
    (
        "d {a: 1, b: 2}, i: ${d}, i.c: ${j.d}, i.x: ${j.y}, j: ${d}, j.d: ${i.a}, j.y: 15",
        {"d": {"a": 1, "b": 2}, "i": {"a": 1, "b": 2, "c": 1, "x": 15}, "j": {"a": 1, "b": 2, "d": 1, "y": 15}},
    ),
    (
        "i.a: 10, i.b: ${j.d}, j.c: 12, j.d: 14, j.e: ${i.a}, j.f: ${i.b}, j.g: ${j.f}",
        {"i": {"a": 10, "b": 14}, "j": {"c": 12, "d": 14, "e": 10, "f": 14, "g": 14}},
    ),
    (
        'k: ${m}, m: ${a.b.c}, a {b {c: 57, e {f: ${k}}}}, A: ${a}, E: ${a.b.e}, "k.m": 37\n'
        'l: [${k}, ${a.b.c}, ${"k.m"}, ${A.b.e.f}, ${E.f}], p: ${l}',
        {
            "k": 57,
            "m": 57,
            "a": {"b": {"c": 57, "e": {"f": 57}}},
            "A": {"b": {"c": 57, "e": {"f": 57}}},
            "E": {"f": 57},
            "k.m": 37,
            "l": [57, 57, 37, 57, 57],
            "p": [57, 57, 37, 57, 57],
        },
    ),
    ("foo: ${?bar}, bar: ${?a.b}, a {b: ${?foo}}", {"a": {}}),
    ("d {x: []}, c: ${d}, c {x += 1, x += 2}", {"d": {"x": []}, "c": {"x": [1, 2]}}),
    ("c {x: [], x: ${c.x}[1], x: ${c.x}[2]}", {"c": {"x": [1, 2]}}),
    ("d {x: []}, c: ${d}, c {x: ${c.x}[1], x: ${c.x}[2]}", {"d": {"x": []}, "c": {"x": [1, 2]}}),
    (
        "r: {d.x: []}, q: ${r}, q: {d {x: []}, c: ${q.d}, c {x: ${q.c.x}[1], x: ${q.c.x}[2]}}",
        {"r": {"d": {"x": []}}, "q": {"d": {"x": []}, "c": {"x": [1, 2]}}},
    ),
    ("x: {a: 1}, y: ${x}, y: ${y} {b: 2}", {"x": {"a": 1}, "y": {"a": 1, "b": 2}}),
]
APPENDED = [  # ``+=`` appends to a list.
    ("a: [], a += 2", {"a": [2]}),
    ("a += 2", {"a": [2]}),
    ("a: [1], a += 2", {"a": [1, 2]}),
    ("a.b.c: [1], a.b.c += 2", {"a": {"b": {"c": [1, 2]}}}),
    ("a {b {c: [1]}}, a {b {c += 2}}", {"a": {"b": {"c": [1, 2]}}}),
    ("a {b {c: [1], c += 2}}", {"a": {"b": {"c": [1, 2]}}}),
    ("a: ${x}, a += ${y}, x: [1], y: 2", {"a": [1, 2], "x": [1], "y": 2}),
    ("a += 1, a += 2, a += 3", {"a": [1, 2, 3]}),
    ("x {a += 1, a += 2, a += 3}", {"x": {"a": [1, 2, 3]}}),
    ("a += {b: 1}, a += {b: 2}", {"a": [{"b": 1}, {"b": 2}]}),
    ("a += x y", {"a": ["x y"]}),
    ("a: [1]\na += [2]", {"a": [1, [2]]}),
    ("a: [{x: 1}], a += ${b}, b {c: 1}", {"a": [{"x": 1}, {"c": 1}], "b": {"c": 1}}),
]
REFUSED = [
    "{",
    "}",
    "[",
    "]",
    ",",
    "7",
    '"k"',
    '"',
    "[,]",
    "[,,]",
    "[1,2,,]",
    "[,1,2]",
    "{ , }",
    "{ , , }",
    "{ 1,2 }",
    '{ , "k" : 7 }',
    '{ "k" : 1 ,, }',
    ' "a" : 1 ,, ',
    '{ "k" : }',
    "{ : 7 }",
    ' "k" : ',
    " : 7 ",
    ' "k" : 7 } ',
    ' "k" : 7 [ ',
    '{ "k" }',
    '{ "a" : [ }',
    '{ "k" : 7, true }',
    "{ k \n m : 7 }",
    "[ 1, \\",
    '[:"k", "m"]',
    '["k" : "m"]',
    '[ "x ]',
    '{ "k" , true }',
    '{ "k" : true "m" : false }',
    "[ 7, }]",
    "[ 7, {]",
    "{}x",
    "[]x",
    "{}{}",
    "{}true",
    "[]{}",
    "[]true",
    "[${]",
    "[$]",
    "[$  ]",
    "[${}]",
    "[${?}]",
    "[${ ?k}]",
    "a: [1,2], b: y${a}z",
    "a {c: 2}, b: y${a}z",
    "a: ${a}",
    "[{a: 2, b: ${${a}}}]",
    "[ = ]",
    "[ + ]",
    "[ # ]",
    "[ ` ]",
    "[ ^ ]",
    "[ ? ]",
    "[ ! ]",
    "[ @ ]",
    "[ * ]",
    "[ & ]",
    "[ \\ ]",
    "+=",
    "[ += ]",
    "+= 7",
    "7 +=",
    "[ 7e+3e ]",
    '[ "k\nm" ]',
    "[ # comment ]",
    "${ #comment }",
    "[ // comment ]",
    "${ // comment }",
    '{ include "m" : 7 }',
    "{ include k }",
    "{ include : { a : 1 } }",
    "a=",
    "a:",
    "a= ",
    "a.b=",
    "{ a= }",
    "{ a: }",
    "a..b: 1",
    "a.: 1",
    ".a: 1",
    "a: ${b..c}",
    "a: ${.b}",
    "a: ${b.}",
    "a${b}c: 1",
    "[a]: 1",
    "{a: 1}: 1",
    "a: abc {x: y}",
    "a: null {x: y}",
    "a: abc [1]",
    "a: abc ${x}, x {y: z}",
    "a: [1]\n[2]",
    "a {b: 1}\n{c: 2}",
    "a: ${x}\n k",
    "a: {b: 1} [2]",
    "a: 7, a += 2",
    "a: abc, a += 2",
    "a {x: y}, a += 2",
    "a: ${b}, b: ${a}",
    "a: ${b}, b: ${c}, c: ${a}",
    "a: [${a}]",
    "a {b: ${a}}",
    "a: ${nix}",
    "a: ${nix}, a {b: 42}",
    "a: x${nix}",
    'k: [1], m: [2], x: ${k}"  "${m}',
    "a: y b: z",
    'a: "y" "b": "z"',
    r'a: "\x"',
    r'a: "\u12"',
    'a: "a\tb"',
    'a: """x',
    "a: b\\c",
    "k: ${m}, m: ${a.b}, a {b: ${k}}",
    "a: b:c",
    "a: b=c",
    "a: b+c",
    "a: b@c",
    "a: b!c",
    "a: b*c",
    "a: b&c",
    "a: b`c",
    "a: b^c",
    "a: b?c",
    "a: b$c",
    "a: b{c",
    "a: b]c",
    "a: b}c",
    "a: 1\nb",
    "a:\n",
    "a: ${b",
    "a: 1 ${b} ,, c: 2",
    "a: ${?b}{c}",
]


def same(found: Any, expected: Any) -> bool:
    """Equal, and of the same types: 1 is not true, nor 1.0."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *SYNTAX,
        *BLANKS,
        *MERGES,
        *UNQUOTED,
        *NUMBERS,
        *QUOTED,
        *TRIPLE,
        *JOINED,
        *KEYS,
        *REFERENCES,
        *LOOKING_BACK,
        *APPENDED,
    ],
)
def test_a_text_is_read_as_the_specification_says(
    text: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert same(parse_hocon(text, tmp_path), expected)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_hocon_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    with pytest.raises(HoconError, match=r"^line \d+, column \d+: "):
        parse_hocon(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("a: 1\nb: x:y", "line 2, column 5: expected a value (texts with signs in them are put in quotes), met ':'"),
        ('a: """x\ny""" }', "line 2, column 6: expected end of text, met '}'"),
        ('a: "x\ny"', "line 1, column 4: quotes that are not closed in their line"),
        ('a: """x', 'line 1, column 4: three quotes (""") that are not closed'),
        (r'a: "\q"', r"line 1, column 5: expected an escape of JSON (\n, \\, \u00e9), found another one"),
        ('a: "x\ty"', r"line 1, column 6: a control character within quotes; write it as an escape (\t)"),
        ("a: 1\nb: ${c.d}", "line 2, column 4: ${c.d} has no value"),
        ("a: ${b}\nb: ${a}", "line 2, column 4: ${a} has no value other than itself"),
        ("a: [1] {}", "line 1, column 4: texts, lists and mappings are mixed in one value"),
        (
            "a: 1, b: 2\na: ${b}, b: ${a}",
            "line 2, column 13: its references are circular, and could have several values",
        ),
        ("a: 1e999", "line 1, column 4: the number is too large"),
        (f"a: {'9' * 5_000}", "line 1, column 4: the number is too large"),
        ("a..b: 1", "line 1, column 1: a path has a name before and after each dot"),
    ],
)
def test_a_mistake_is_told_where_it_is(text: str, mistake: str, tmp_path: Path) -> None:
    with pytest.raises(HoconError) as error:
        parse_hocon(text, tmp_path)
    assert str(error.value) == mistake


def test_which_value_is_meant_does_not_depend_on_the_order_of_keys(tmp_path: Path) -> None:
    """Two mappings that refer to one another: each reference sees what came before the one that leads back to it."""
    fields = ["i.b.c: 100\ni: ${d}\ni.b {c: 43}", "d {a: ${i.b.c}, b: 2}", "j.b: ${i.b}"]
    expected = {"i": {"a": 100, "b": {"c": 43}}, "d": {"a": 100, "b": 2}, "j": {"b": {"c": 43}}}
    for first in range(3):
        assert parse_hocon("\n".join(fields[first:] + fields[:first]), tmp_path) == {
            **expected,
            "i": {"b": {"c": 43}, "a": 100},
        }


def _included(folder: Path, files: Mapping[str, str], text: str) -> Any:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return parse_hocon(text, folder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a {include "f.conf"}', {"a": {"x": 10, "y": 10}}),
        ('a {include "f.conf"}, a {x: 42}', {"a": {"x": 42, "y": 42}}),
        ('a {include "f.conf"}, top: 5', {"a": {"x": 10, "y": 10, "t": 5}, "top": 5}),
        ('a {include "f.conf"}, a.top: 6, top: 5', {"a": {"x": 10, "y": 10, "t": 6, "top": 6}, "top": 5}),
        ('x: 1, include "f.conf"', {"x": 10, "y": 10}),
        ('include "f.conf", x: 1', {"x": 1, "y": 1}),
        ('a.b {c: 1\ninclude "f.conf"\n}', {"a": {"b": {"c": 1, "x": 10, "y": 10}}}),
        ('a {include "sub/g.conf"}', {"a": {"f": {"x": 10, "y": 10}}}),
        ('include file("f.conf")', {"x": 10, "y": 10}),
        ('include\n required( file( "f.conf" ) )', {"x": 10, "y": 10}),
        ('include"j.json"', {"j": [True, None]}),
        ('include "[x]*.conf"', {"literal": 1}),
        ('include "sub/?.conf"', {"f": {"x": 10, "y": 10}}),
        ('l: [{include "j.json"}]', {"l": [{"j": [True, None]}]}),
    ],
)
def test_an_included_file_is_read_at_its_place(tmp_path: Path, text: str, expected: Any) -> None:
    """Its references are looked up from where it is included, and then from the beginning."""
    files = {
        "f.conf": "x: 10, y: ${x}, t: ${?top}",
        "sub/g.conf": 'f {include "../f.conf"}',
        "j.json": '{"j": [true, null]}',
        "[x]*.conf": "literal: 1",
        "x.conf": "other: 1",
    }
    assert same(_included(tmp_path, files, text), expected)


def test_a_folder_whose_name_has_brackets_is_no_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "shop [v2]*"
    folder.mkdir()
    assert _included(folder, {"a1.conf": "a: 1", "a2.conf": "b: 2"}, 'include "a?.conf"') == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('a: 1\ninclude "nix.conf"', "line 2, column 8: it includes {}/nix.conf, which is not there"),
        ('include "wrong.conf"', "in {}/wrong.conf, which it includes: line 2, column 3: expected "),
        ('include "lost.conf"', "in {}/lost.conf, which it includes: line 1, column 4: ${b} has no value"),
        ('include "a.yaml"', "line 1, column 8: it includes {}/a.yaml, and only files in HOCON and JSON can be"),
        (
            'l: [{include "lost.conf"}]',
            "in {}/lost.conf, which it includes: line 1, column 4: a file that is included wi",
        ),
        ('include url("x.conf")', "line 1, column 8: it includes a URL, and URLs are not followed"),
        ('include "file:/x.conf"', "line 1, column 8: it includes a URL (file:...), and URLs are not followed"),
        ('include "f" : 1', "line 1, column 8: it includes {}/f, which is not there"),
        (r'include "\u0000"', "line 1, column 8: it includes a file whose name has a null character"),
    ],
)
def test_what_cannot_be_included_is_refused_with_its_place(tmp_path: Path, text: str, mistake: str) -> None:
    files = {"wrong.conf": "a: 1\nb }", "lost.conf": "a: ${b}", "a.yaml": "a: 1"}
    with pytest.raises(HoconError) as error:
        _included(tmp_path, files, text)
    assert str(error.value).startswith(mistake.replace("{}", str(tmp_path)))


NAMES = st.text('ab.$ \u00e9"\\', max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


@examples(100)
@given(st.lists(JSON) | st.dictionaries(NAMES, JSON), st.none() | st.integers(0, 3), st.booleans())
def test_all_json_is_hocon_with_the_same_value(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert same(parse_hocon(text, Path()), value)


@examples(100)
@given(st.text('ab\n ,:={}[]"$?+.#/1-\\', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(HoconError):
        parse_hocon(text, Path("/nowhere"))

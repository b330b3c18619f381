# SPDX-License-Identifier: Apache-2.0
"""Whole graphs: which nodes of a framework's graph become which programs of the tile language.

partition.py puts nodes into groups, program.py makes one compiled program of a group. No framework
is known here: adapters say what a node reads, makes and computes.
"""

# SPDX-License-Identifier: Apache-2.0
"""Measures operators against the libraries of this machine and against what the machine can do.

`python -m pto bench` is command.py; `runner.py` serves it and the benches of the repository.
"""

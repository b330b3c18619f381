# SPDX-License-Identifier: Apache-2.0
"""Runs a lesson as a notebook, in the folder where it is started; prints how many cells ran.

python run_notebook.py docs/tutorials/1_kernel.md     # needs jupytext, nbclient and ipykernel
"""

import os
import sys

import jupytext
import nbclient

notebook = jupytext.read(sys.argv[1])
code = [cell for cell in notebook.cells if cell.cell_type == "code"]
client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                                 resources={"metadata": {"path": os.getcwd()}})  # fmt: skip
client.execute()
assert not [out for cell in code for out in cell.outputs if out.output_type == "error"]
print(len([cell for cell in code if cell.execution_count]))

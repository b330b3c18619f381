# SPDX-License-Identifier: Apache-2.0
"""Makes a checkout an installed package: `import pto` works from any folder, and frameworks find
its entry points.
"""

import re
import shutil

import tomllib


def install(root, environment):
    """Makes openpto.pth and openpto-VERSION.dist-info in the packages of an environment."""
    [site] = environment.glob("lib/python3*/site-packages")
    (site / "openpto.pth").write_text(f"{root}\n")
    about = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version = re.search(r'__version__ = "(.+?)"', (root / "pto/__init__.py").read_text()).group(1)
    folder = site / f"{about['name']}-{version}.dist-info"
    for other in site.glob(f"{about['name']}-*.dist-info"):
        if other != folder:
            shutil.rmtree(other)
    folder.mkdir(exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {version}\n"
    (folder / "METADATA").write_text(head)
    lines = []
    for group, points in about["entry-points"].items():
        if group == "torch.backends":  # each `import torch` would start the npu device, before a
            continue  # test or a developer has set the variables that it reads
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines))

# SPDX-License-Identifier: Apache-2.0
"""Python spellings of other projects: `pto.compat.infini` is the folder compat/infini.

In use:

    import pto.compat.infini
    pto.compat.infini.install()      # import infini.ops
"""

from pto import build_config

__path__ = [build_config.compat_dir()]

# SPDX-License-Identifier: Apache-2.0
"""``python -m dmace``, for environments whose scripts are not on the path."""

import sys

from dmace.cli import main

sys.exit(main())

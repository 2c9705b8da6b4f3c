"""`python -m howdah_server`: the same as `howdah-server`."""

import sys

from howdah_server.command import main

sys.exit(main())

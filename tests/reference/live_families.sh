#!/usr/bin/env bash
# live_families.sh FLOTILLA [MODEL...]: runs live_families.py by the Python that FLOTILLA_PYTHON names, else python3.
set -euo pipefail
python=${FLOTILLA_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "skipped: there is no $python"; exit 77; }
exec "$python" "$(dirname "${BASH_SOURCE[0]}")/live_families.py" "$@"

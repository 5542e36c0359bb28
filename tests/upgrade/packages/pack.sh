#!/usr/bin/env bash
# Keep the Python files of this package for tests/upgrade/test_older_package.py: pack.sh COMMIT NUMBER
# NUMBER is SCHEMA in version.py of that commit. Run it before each release.
set -euo pipefail
cd "$(dirname "$0")"
root=$(git rev-parse --show-toplevel)
git -C "$root" ls-tree -r --name-only "$1" src/trunkline \
  | grep '\.py$' | grep -vE '/(bench|demo|gateway|cli)/|/spark/.*/' \
  | xargs git -C "$root" archive --prefix=package/ "$1" \
  | xz -9e > "schema-$2.tar.xz"

#!/usr/bin/env bash
# usage: tests/sarif/validate.sh [--root DIR] FILE.sarif ...
# Checks SARIF documents as GitHub code scanning does: the schema, Microsoft's validator with GitHub's rules, the line hashes
# (computed again from the files below DIR), the limits, and a consumer's counts. Errors and warnings of the validator fail;
# its own exit code is 0 whatever it finds, so its log decides. Notes are printed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
base=$(cd "$here/../.." && pwd)
root=$base
if [ "${1:-}" = --root ]; then
  root=$(cd "$2" && pwd)
  shift 2
fi
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
tools=${SARIF_TOOLS:-${CARGO_TARGET_DIR:-$base/target}/sarif-multitool}
binary=$tools/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool
if [ ! -f "$binary" ]; then
  mkdir -p "$tools"
  npm install --silent --no-fund --no-audit --prefix "$tools" @microsoft/sarif-multitool@5.7.0 >/dev/null
fi
# The package's own install step, which sets this bit, is often not allowed to run.
chmod u+x "$binary"
if ! { command -v check-jsonschema && command -v sarif; } >/dev/null; then
  if [ ! -x "$tools/venv/bin/sarif" ]; then
    python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" install --quiet check-jsonschema==0.39.0 sarif-tools==3.0.5 ||
      echo "check-jsonschema and sarif-tools cannot be installed: only Microsoft's validator looks at the schema"
  fi
  PATH=$tools/venv/bin:$PATH
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for file in "$@"; do
  "$binary" validate "$file" --rule-kind 'Sarif;Ghas' --level 'Error;Warning;Note' --max-file-size-in-kb 500000 -o "$work/log" --log ForceOverwrite >/dev/null || true
  python3 "$here/judge.py" prepare "$file" "$root" "$work/plain.sarif"
  "$binary" rewrite "$work/plain.sarif" --insert RollingHashPartialFingerprints -o "$work/hashed.sarif" --log ForceOverwrite >/dev/null || true
  if command -v sarif >/dev/null; then sarif summary "$file" >"$work/summary"; else rm -f "$work/summary"; fi
  python3 "$here/judge.py" judge "$file" "$work" || status=1
  if command -v check-jsonschema >/dev/null; then
    check-jsonschema --schemafile "$(dirname "$binary")/sarif-2.1.0.json" "$file" || status=1
  fi
done
exit $status

#!/usr/bin/env bash
# usage: tests/sarif/validate.sh FILE.sarif ...
# Checks SARIF documents as GitHub code scanning does, with Microsoft's validator. The validator's own exit code is 0
# whatever it finds, so its log decides: any result of level error fails. Warnings and notes are printed.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
tools=${SARIF_TOOLS:-${CARGO_TARGET_DIR:-$root/target}/sarif-multitool}
binary=$tools/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool
if [ ! -f "$binary" ]; then
  mkdir -p "$tools"
  npm install --silent --no-fund --no-audit --prefix "$tools" @microsoft/sarif-multitool@5.7.0 >/dev/null
fi
# The package's own install step, which sets this bit, is often not allowed to run.
chmod u+x "$binary"
status=0
for file in "$@"; do
  log=$(mktemp)
  "$binary" validate "$file" --rule-kind 'Sarif;Ghas' --level 'Error;Warning;Note' -o "$log" --log ForceOverwrite >/dev/null || true
  python3 - "$file" "$log" <<'PY' || status=1
import collections, json, sys
name, log = sys.argv[1:]
with open(log, encoding="utf-8-sig") as handle:
    results = [r for run in json.load(handle)["runs"] for r in run.get("results", [])]
counts = collections.Counter((r.get("level", "warning"), r["ruleId"]) for r in results)
for (level, rule), count in sorted(counts.items()):
    print(f"{name}: {level} {rule}: {count}")
errors = [r for r in results if r.get("level", "warning") == "error"]
for result in errors[:20]:
    print(f"{name}: {json.dumps(result['message'])} at {json.dumps(result.get('locations', [])[:1])}")
print(f"{name}: {len(errors)} errors, {sum(c for (l, _), c in counts.items() if l == 'warning')} warnings")
sys.exit(bool(errors))
PY
  rm -f "$log"
  # What the upload action checks first; and a consumer that must count as we do.
  if command -v check-jsonschema >/dev/null; then
    check-jsonschema --schemafile "$(dirname "$binary")/sarif-2.1.0.json" "$file" || status=1
  fi
  if command -v sarif >/dev/null; then
    python3 - "$file" <(sarif summary "$file") <<'PY' || status=1
import collections, json, re, sys
with open(sys.argv[1], encoding="utf-8") as handle:
    levels = collections.Counter(r["level"] for run in json.load(handle)["runs"] for r in run["results"])
with open(sys.argv[2], encoding="utf-8") as handle:
    counted = {level: int(n) for level, n in re.findall(r"^(error|warning|note): (\d+)$", handle.read(), re.M)}
wrong = {level: (levels[level], n) for level, n in counted.items() if levels[level] != n}
print(f"{sys.argv[1]}: counts {'differ: ' + str(wrong) if wrong else 'agree'}")
sys.exit(bool(wrong) or not counted)
PY
  fi
done
exit $status

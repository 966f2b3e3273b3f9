"""Judges a SARIF document by what other programs made of it; `tests/sarif/validate.sh` calls it."""

import collections
import gzip
import json
import os
import re
import sys
import urllib.parse


def load(name):
    with open(name, encoding="utf-8-sig") as handle:
        return json.load(handle)


def results(document):
    return [result for run in document["runs"] for result in run.get("results", [])]


def prepare(name, root, target):
    """The document without fingerprints and with absolute addresses, so that the validator computes the hashes anew."""
    document = load(name)
    for result in results(document):
        del result["partialFingerprints"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        del place["uriBaseId"]
        place["uri"] = "file://" + urllib.parse.quote(root) + "/" + place["uri"]
    with open(target, "w", encoding="utf-8") as handle:
        json.dump(document, handle)


def of_validator(work):
    log = load(os.path.join(work, "log"))
    for invocation in [i for run in log["runs"] for i in run.get("invocations", [])]:
        for key in ["toolConfigurationNotifications", "toolExecutionNotifications"]:
            for note in [n for n in invocation.get(key, []) if n.get("level", "warning") != "note"]:
                yield True, note["message"]["text"]
    found = results(log)
    counts = collections.Counter((r.get("level", "warning"), r["ruleId"]) for r in found)
    for (level, rule), count in sorted(counts.items()):
        yield level != "note", f"{level} {rule}: {count}"
    for result in [r for r in found if r.get("level", "warning") != "note"][:20]:
        yield True, f"{json.dumps(result['message'])} at {json.dumps(result.get('locations', [])[:1])}"


def of_hashes(document, work):
    key = "primaryLocationLineHash"
    ours, theirs = results(document), results(load(os.path.join(work, "hashed.sarif")))
    pairs = [(a["partialFingerprints"][key], b.get("partialFingerprints", {}).get(key)) for a, b in zip(ours, theirs)]
    for own, other in pairs:
        if own != other:
            yield True, f"line hash {own}, the validator's is {other}"
    yield len(ours) != len(theirs), f"{len(pairs)} line hashes compared"


def of_limits(name, document):
    with open(name, "rb") as handle:
        size = len(gzip.compress(handle.read()))
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    steps = [len(f["locations"]) for r in run["results"] for c in r.get("codeFlows", []) for f in c["threadFlows"]]
    # What GitHub takes; https://docs.github.com, "SARIF support for code scanning".
    for what, number, most in [
        ("bytes compressed", size, 10 << 20),
        ("runs", len(document["runs"]), 1),
        ("results", len(run["results"]), 25_000),
        ("rules", len(rules), 25_000),
        ("tags of a rule", max(len(rule["properties"]["tags"]) for rule in rules), 10),
        ("steps of a code flow", max(steps, default=0), 1_000),
        ("locations of a result", max((len(r["locations"]) for r in run["results"]), default=0), 1),
        ("related locations", max((len(r.get("relatedLocations", [])) for r in run["results"]), default=0), 100),
    ]:
        yield number > most, f"{what}: {number} of {most}"


def of_counts(document, work):
    path = os.path.join(work, "summary")
    if not os.path.exists(path):
        return
    levels = collections.Counter(result["level"] for result in results(document))
    with open(path, encoding="utf-8") as handle:
        counted = {level: int(n) for level, n in re.findall(r"^(error|warning|note): (\d+)$", handle.read(), re.M)}
    wrong = {level: (levels[level], n) for level, n in counted.items() if levels[level] != n}
    yield bool(wrong) or not counted, f"sarif-tools counts {counted}" + (f", we {dict(levels)}" if wrong else "")


def judge(name, work):
    document = load(name)
    remarks = [*of_validator(work), *of_hashes(document, work), *of_limits(name, document), *of_counts(document, work)]
    for bad, text in remarks:
        print(f"{name}: {'BAD ' if bad else ''}{text}")
    return any(bad for bad, _ in remarks)


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(*sys.argv[2:])
    else:
        sys.exit(judge(*sys.argv[2:]))

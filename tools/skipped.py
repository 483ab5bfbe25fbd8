#!/usr/bin/env python3
"""tools/skipped.py [--ci] RESULTS.xml: says which tests CTest skipped, and why; with --ci it fails unless they are
those that need a GPU."""
import sys
import xml.etree.ElementTree

ci = sys.argv[1:2] == ["--ci"]
wrong = 0
for case in xml.etree.ElementTree.parse(sys.argv[-1]).getroot().iter("testcase"):
    if case.get("status") != "notrun":
        continue
    said = (case.findtext("system-out") or "").strip().split("\n")[-1]
    print("%s: %s" % (case.get("name"), said or "did not run"))
    wrong += "cuda" not in case.get("name")
if ci and wrong:
    sys.exit("tools/skipped.py: in continuous integration only the GPU's tests may be skipped")

#!/usr/bin/env python3
"""tools/skipped.py [--ci] RESULTS.xml: prints which tests CTest skipped, and why; with --ci it fails unless they are
those that need a GPU or
a model from outside."""
import sys
import xml.etree.ElementTree

ci = sys.argv[1:2] == ["--ci"]
wrong = 0
for case in xml.etree.ElementTree.parse(sys.argv[-1]).getroot().iter("testcase"):
    if case.get("status") != "notrun":
        continue
    said = (case.findtext("system-out") or "").strip().split("\n")[-1]
    print("%s: %s" % (case.get("name"), said or "did not run"))
    # a GPU, or a model that the network has to bring
    wrong += not any(word in case.get("name") for word in ("cuda", "real_model"))
if ci and wrong:
    sys.exit("tools/skipped.py: continuous integration may skip only tests that need a GPU or a downloaded model")

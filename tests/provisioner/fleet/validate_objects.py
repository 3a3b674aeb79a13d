#!/usr/bin/env python3
"""usage: validate_objects.py FOLDER: holds each object of Kubernetes in the folder's files against
the schemas of the last five versions, in which unknown fields are errors. Says what is wrong. Exit
status 77, and the reason, without the package kubernetes-validate."""

import json
import os
import sys

try:
    import kubernetes_validate
    from kubernetes_validate.utils import all_versions, major_minor
except ImportError as error:
    print("no schemas (%s); scripts/setup.sh --tests installs them" % error)
    sys.exit(77)


def main():
    versions = sorted(set(map(major_minor, all_versions())), key=lambda v: int(v.split(".")[1]))
    kinds = set()
    problems = 0
    for name in sorted(os.listdir(sys.argv[1])):
        with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
            value = json.load(file)
        kinds.add(value["kind"])
        for version in versions[-5:]:
            try:
                kubernetes_validate.validate(value, version, strict=True)
            except kubernetes_validate.ValidationError as problem:
                where = ".".join(map(str, problem.path))
                print("%s %s, %s: %s" % (value["kind"], version, where, problem.message))
                problems += 1
    print("%s against %s" % (", ".join(sorted(kinds)), ", ".join(versions[-5:])))
    sys.exit(1 if problems or "Pod" not in kinds or "Secret" not in kinds else 0)


if __name__ == "__main__":
    main()

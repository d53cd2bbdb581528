"""Every document that deploy/k8s renders has only fields that the API has, of the right type, and those that it must have: by our own list of the
kinds we use (kinds.py), and by the OpenAPI description of Kubernetes 1.20 where make kubelab has left it. Planted mistakes have to be found."""
import copy
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from kinds import KINDS  # noqa: E402
from lib import SOURCE, check, equal, finish, skip, tmp  # noqa: E402
from schema_faults import faults, is_int  # noqa: E402

K8S = os.path.join(SOURCE, "deploy/k8s")
CACHE = os.environ.get("MERIDIAN_KUBELAB") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "meridian-kubelab")
NEWER = {"completionMode": "1.21"}  # what we use that 1.20 does not know, with the version that does


def by_kinds(doc):
    kind = f"{doc.get('apiVersion')} {doc.get('kind')}"
    if kind not in KINDS:
        return [f"{kind}: kinds.py has no such kind"]
    return faults({k: v for k, v in doc.items() if k not in ("apiVersion", "kind")}, KINDS[kind], f"{kind} {doc['metadata'].get('name')}")


class OpenApi:
    """The same by definitions of the API's own description."""

    def __init__(self, path):
        with open(path) as f:
            self.definitions = json.load(f)["definitions"]
        self.kinds = {}
        for name, d in self.definitions.items():
            for k in d.get("x-kubernetes-group-version-kind", []):
                self.kinds["/".join(filter(None, (k["group"], k["version"]))) + " " + k["kind"]] = name

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def faults(self, value, schema, at):
        schema = self.resolve(schema)
        kind = schema.get("type")
        if schema.get("format") == "int-or-string" or "Quantity" in schema.get("description", "")[:40] or kind is None and "properties" not in schema:
            return [] if is_int(value) or isinstance(value, str) else [f"{at}: {value!r}"]
        if kind == "array":
            return [f for i, v in enumerate(value) for f in self.faults(v, schema["items"], f"{at}[{i}]")] if isinstance(value, list) else [f"{at}: no list"]
        if kind in ("string", "integer", "boolean"):
            ok = {"string": isinstance(value, str), "integer": is_int(value), "boolean": isinstance(value, bool)}[kind]
            return [] if ok else [f"{at}: {value!r} is no {kind}"]
        if not isinstance(value, dict):
            return [f"{at}: {value!r} is no object"]
        if "properties" not in schema:
            more = schema.get("additionalProperties")
            return [f for k, v in value.items() for f in self.faults(v, more, f"{at}.{k}")] if more else []
        found = [f"{at}: no {k}" for k in schema.get("required", []) if k not in value]
        for k, v in value.items():
            found += self.faults(v, schema["properties"][k], f"{at}.{k}") if k in schema["properties"] else [f"{at}: unknown field {k}"] if k not in NEWER else []
        return found

    def document(self, doc):
        kind = f"{doc.get('apiVersion')} {doc.get('kind')}"
        if kind not in self.kinds:
            return [] if kind.startswith(("monitoring.coreos.com/", "policy/v1 ")) else [f"{kind}: Kubernetes 1.20 has no such kind"]
        return self.faults(doc, self.definitions[self.kinds[kind]], f"{kind} {doc['metadata'].get('name')}")

    def check_kinds(self):
        """Our own list has no field that the API has not."""
        for kind, want in KINDS.items():
            if kind in self.kinds:
                self.compare(want, self.definitions[self.kinds[kind]], kind)

    def compare(self, want, schema, at):
        schema = self.resolve(schema)
        if isinstance(want, list):
            self.compare(want[0], schema.get("items", {}), at + "[]")
        elif isinstance(want, dict) and "*" not in want:
            for k, v in want.items():
                k = k.rstrip("!")
                if check(k in schema.get("properties", {}) or k in NEWER or k in ("endPort", "maxSurge", "terminationGracePeriodSeconds", "os"), f"kinds.py: {at}.{k}: the API has no such field") \
                        and k in schema.get("properties", {}):
                    self.compare(v, schema["properties"][k], f"{at}.{k}")


def render(folder):
    built = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
    if not check(built.returncode == 0, f"kubectl kustomize {folder}: {built.stderr}"):
        return []
    made = subprocess.run(["kubectl", "annotate", "--local", "-o", "json", "-f", "-", "meridian.dev/test=1"], input=built.stdout, capture_output=True, text=True, timeout=60)
    check(made.returncode == 0, f"{folder}: {made.stderr}")
    docs, at, decoder = [], 0, json.JSONDecoder()
    text = made.stdout.strip()
    while at < len(text):
        doc, at = decoder.raw_decode(text, at)
        docs.append(doc)
        while at < len(text) and text[at].isspace():
            at += 1
    equal(len(docs), len(re.findall(r"(?m)^kind:", built.stdout)), f"{folder}: documents read back")
    for d in docs:
        del d["metadata"]["annotations"]["meridian.dev/test"]
    return docs


def rendered():
    """Everything that can be built: each folder by itself, and each component over base."""
    copied = os.path.join(tmp(), "k8s")
    shutil.copytree(K8S, copied)
    found = {}
    for at, folders, names in os.walk(K8S):
        if "kustomization.yaml" not in names:
            continue
        rel = os.path.relpath(at, K8S)
        if rel.startswith("components" + os.sep):
            with_it = os.path.join(copied, "overlays", "with-" + os.path.basename(rel))
            os.makedirs(with_it)
            with open(os.path.join(with_it, "kustomization.yaml"), "w") as f:
                f.write(f"resources: [../../base]\ncomponents: [../../{rel}]\n")
            found[rel] = render(with_it)
        else:
            found[rel] = render(at)
    return found


def plant(docs, kind, change):
    doc = copy.deepcopy(next(d for d in docs if d["kind"] == kind))
    change(doc)
    return doc


def container(doc):
    return doc["spec"]["template"]["spec"]["containers"][0]


PLANTED = {
    "a misspelt field": ("DaemonSet", lambda d: container(d).update(readynessProbe={})),
    "a field in the wrong place": ("DaemonSet", lambda d: d["spec"].update(hostPID=True)),
    "a number as text": ("StatefulSet", lambda d: d["spec"].update(replicas="1")),
    "text as a number": ("StatefulSet", lambda d: container(d)["env"].append({"name": "A", "value": 1}) if "env" in container(d) else container(d).update(env=[{"name": "A", "value": 1}])),
    "what must be there": ("StatefulSet", lambda d: d["spec"].pop("template")),
    "a list that is none": ("DaemonSet", lambda d: container(d).update(args="--x")),
    "a truth value as text": ("DaemonSet", lambda d: d["spec"]["template"]["spec"].update(hostPID="true")),
}
OURS = {
    "no such choice": ("DaemonSet", lambda d: d["spec"]["updateStrategy"].update(type="Rolling")),
    "no quantity": ("DaemonSet", lambda d: container(d)["resources"]["limits"].update(memory="512 MB")),
    "no label": ("DaemonSet", lambda d: d["metadata"]["labels"].update({"a b": "c"})),
    "a port's name too long": ("DaemonSet", lambda d: container(d)["livenessProbe"]["httpGet"].update(port="metrics-of-the-agent")),
    "no such kind": ("PodDisruptionBudget", lambda d: d.update(apiVersion="policy/v2")),
}

if not shutil.which("kubectl"):
    skip("the manifests are rendered by kubectl, which is not installed")
everything = rendered()
for folder, docs in everything.items():
    check(docs, f"{folder}: no document")
    equal([f for d in docs for f in by_kinds(d)], [], f"{folder}, by kinds.py")
base = everything["base"]
for what, (kind, change) in {**PLANTED, **OURS}.items():
    check(by_kinds(plant(base, kind, change)), f"kinds.py does not find {what}")
swagger = os.path.join(CACHE, "swagger.json")
if os.path.exists(swagger):
    api = OpenApi(swagger)
    api.check_kinds()
    for folder, docs in everything.items():
        equal([f for d in docs for f in api.document(d)], [], f"{folder}, by the API's own description")
    for what, (kind, change) in PLANTED.items():
        check(api.document(plant(base, kind, change)), f"the API's description does not find {what}")
    print(f"{sum(map(len, everything.values()))} documents of {len(everything)} folders, by kinds.py and by Kubernetes 1.20")
else:
    print(f"{sum(map(len, everything.values()))} documents of {len(everything)} folders, by kinds.py only; the API's own description is there after make kubelab")
finish()
